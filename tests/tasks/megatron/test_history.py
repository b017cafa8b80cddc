"""The combined logs of several jobs of one training."""

import json
from pathlib import Path

from tasks.megatron.history import keep_log, read_history
from tests.tasks.megatron.jobs import training_settings
from tests.tasks.megatron.test_logs import SAMPLE

STEP = " iteration {step:8d}/    1000 | elapsed time per iteration (ms): 1000.0 | lm loss: {loss} |\n"
CHECKPOINT = "  successfully saved checkpoint from iteration {step:7d} to /checkpoints\n"
VALIDATION = " validation loss at iteration {step} on validation set | lm loss value: 2.5E+00 |\n"


def job(path: Path, steps: range, loss: str = "4.0") -> Path:
    """Write the log of a job that ran ``steps``, with a checkpoint and a validation at the last one."""
    text = "".join(STEP.format(step=step, loss=loss) for step in steps)
    path.write_text(text + CHECKPOINT.format(step=steps[-1]) + VALIDATION.format(step=steps[-1]))
    return path


def test_job_that_resumes_adds_to_what_the_jobs_before_it_logged(tmp_path):
    settings = training_settings(tmp_path)
    keep_log(tmp_path / "log.json", settings, [job(tmp_path / "a", range(1, 8))])
    whole = keep_log(tmp_path / "log.json", settings, [job(tmp_path / "b", range(6, 11), "3.0")])
    assert [(entry.step, entry.loss) for entry in whole.iterations] == [
        *((step, 4.0) for step in range(1, 6)),
        *((step, 3.0) for step in range(6, 11)),
    ]
    # The second job repeated step 7, so the first job's checkpoint of that step no longer counts.
    assert whole.checkpoints == (10,) and whole.validation == ((10, 2.5),)
    assert read_history(tmp_path / "log.json") == whole


def test_training_that_starts_over_forgets_the_one_before(tmp_path):
    settings = training_settings(tmp_path)
    keep_log(tmp_path / "log.json", settings, [job(tmp_path / "a", range(1, 8))])
    whole = keep_log(tmp_path / "log.json", settings, [job(tmp_path / "b", range(1, 3))])
    assert [entry.step for entry in whole.iterations] == [1, 2] and whole.checkpoints == (2,)


def test_job_that_logged_nothing_leaves_what_is_known(tmp_path):
    settings = training_settings(tmp_path)
    before = keep_log(tmp_path / "log.json", settings, [SAMPLE])
    (tmp_path / "empty").write_text("NCCL fell over\n")
    assert keep_log(tmp_path / "log.json", settings, [tmp_path / "empty"]) == before
    assert read_history(tmp_path / "gone.json").iterations == ()


def test_loss_that_is_no_number_is_kept_as_null(tmp_path):
    keep_log(tmp_path / "log.json", training_settings(tmp_path), [job(tmp_path / "a", range(1, 2), "nan")])
    kept = json.loads((tmp_path / "log.json").read_text(), parse_constant=lambda name: f"not JSON: {name}")
    assert kept["iterations"][0]["loss"] is None and kept["settings"]["global_batch_size"] == 512
