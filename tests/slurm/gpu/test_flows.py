"""import-checkpoint and train-model on a real Prefect server, a real worker and a real Slurm."""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.sorting import ArtifactSort

from flows.checkpoint import import_checkpoint
from flows.training import train_model
from tasks.contracts.layout import DataRoot
from tasks.energon.index import index_dataset
from tasks.io.folder_lock import one_writer
from tasks.megatron import slurm as slurm_tools
from tasks.megatron.launch import LAST_RECORD, LaunchRecord, read_record
from tests.conftest import ROOT
from tests.flows.test_ui import prefect
from tests.slurm.gpu.stand_in import SHORT, behave, until
from tests.tasks.energon.dataset import good_dataset
from tests.tasks.megatron.jobs import checkpoint_settings, training_settings

pytestmark = pytest.mark.usefixtures("at_the_cluster")
FAST = {"poll_seconds": 0.3}


@pytest.fixture(scope="module")
def dataset_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = good_dataset(tmp_path_factory.mktemp("dataset") / "energon")
    index_dataset(folder)
    return folder


@pytest.fixture
def ready(place: Path, dataset_once: Path) -> Path:
    """Folders for GPU jobs, with a prepared dataset."""
    shutil.copytree(dataset_once, place / "root" / "energon")
    return place


def artifact(key: str) -> str:
    """Return the data of the newest artifact with that key."""
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(
            artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[key])), sort=ArtifactSort.CREATED_DESC, limit=1
        )
    return str(found[0].data)


@pytest.mark.usefixtures("prefect_server")
def test_import_is_shown_first_and_launched_when_told(place):
    root, settings = place / "root", checkpoint_settings(place, name="new", **FAST)
    shown = import_checkpoint(root, settings)
    assert shown.status == "rendered" and not shown.checkpoint.exists()
    assert "Nothing was submitted" in artifact("import-checkpoint-submission")
    assert "#SBATCH --gpus-per-node=8" in artifact("import-checkpoint-dry-run")

    done = import_checkpoint(root, settings, launch=True)
    assert done.status == "imported" and done.checkpoint.is_dir()
    assert "is COMPLETED" in artifact("import-checkpoint-job")

    again = import_checkpoint(root, settings, launch=True)
    assert again.status == "unchanged"
    other = import_checkpoint(root, checkpoint_settings(place, name="new", tp=4, ep=2), return_state=True)
    assert other.is_failed() and "new is not empty" in other.message


@pytest.mark.usefixtures("prefect_server")
def test_training_is_verified_and_a_finished_one_is_not_run_again(ready, slurm):
    root, settings = ready / "root", training_settings(ready, **SHORT)
    done = train_model(root, settings, launch=True)
    assert (done.status, done.newest_checkpoint, done.last_step, done.last_loss) == ("trained", 4, 4, 1.0)
    assert "validation loss by step" in done.report.read_text() and str(done.report) in artifact("train-model-log")
    assert "data:image/png;base64," in artifact("train-model-log") and "DIFFERS" not in artifact("train-model-resolved")
    before = slurm.job_ids()
    again = train_model(root, settings, launch=True)
    assert (again.status, again.last_step, again.report) == ("unchanged", 4, done.report)
    assert slurm.job_ids() == before

    too_long = training_settings(ready, **{**SHORT, "max_steps": 6})
    state = train_model(root, too_long, return_state=True)
    assert state.is_failed() and "5 train samples, max_steps x global_batch_size asks for 6" in state.message


@pytest.mark.usefixtures("prefect_server")
def test_second_launch_of_a_training_stops_at_once_and_names_the_first(ready, slurm):
    root, settings, before = ready / "root", training_settings(ready, **SHORT), slurm.job_ids()
    with one_writer(DataRoot(root).launch("train-model", settings.name), "train-model", run="olive-fox"):
        state = train_model(root, settings, launch=True, return_state=True)
        assert train_model(root, settings).status == "rendered"
    assert state.is_failed() and f"Another train-model is at work in {root}: process {os.getpid()}" in state.message
    assert "flow run 'olive-fox', since 2" in state.message and slurm.job_ids() == before


@pytest.mark.usefixtures("prefect_server")
def test_training_that_resolved_something_else_fails_by_name(ready):
    behave(ready, resolved={"validation": {"eval_interval": 0, "eval_iters": 32}})
    state = train_model(ready / "root", training_settings(ready, **SHORT), launch=True, return_state=True)
    assert state.is_failed() and "validation.eval_interval is 0, asked was 1 to 4" in state.message
    assert "DIFFERS" in artifact("train-model-resolved")


def test_allocation_runs_the_program_itself_and_goes_on_after_a_failure(ready, slurm, own_api, tmp_path):
    def run() -> slurm_tools.Job:
        words = [sys.executable, "-m", "flows.training", "--root", str(ready / "root"), "--launch", "true"]
        for name, value in {**settings, "run_by": "allocation"}.items():
            words += [f"--training.{name.replace('_', '-')}", str(value)]
        path = f"{Path(__file__).parent / 'pyxis'}:{os.environ['PATH']}"
        job_id = slurm.command(
            "sbatch", "--parsable", "-p", "gpu", "-N1", "--gpus-per-node=8", "--exclusive",
            f"--output={tmp_path}/%j.flow", f"--chdir={ROOT}", "--export=ALL,PATH,PREFECT_API_URL,SLURM_CONF",
            "--wrap", f"export PATH={path}; . {own_api.environment_file}; {shlex.join(words)}",
        ).strip()  # fmt: skip
        until(lambda: slurm_tools.look(int(job_id)).ended, 120)
        return slurm_tools.look(int(job_id))

    settings = {"bridge_dir": ready / "bridge", "container_image": ready / "megatron-bridge.sqsh"}
    settings |= {"account": "vision", "partition": "gpu", **SHORT}
    behave(ready, **{"step-3": "fail"})
    failed = run()
    assert failed.state == "FAILED"
    text = (tmp_path / f"{failed.job_id}.flow").read_text()
    assert "NCCL fell over at step-3" in text

    behave(ready)
    job = run()
    text = (tmp_path / f"{job.job_id}.flow").read_text()
    assert job.state == "COMPLETED", text
    assert json.loads(text.splitlines()[-1])["newest_checkpoint"] == 4
    log = (DataRoot(ready / "root").launch("train-model", "qwen3.6-35b-a3b") / f"step-{job.job_id}.out").read_text()
    kept = json.loads(DataRoot(ready / "root").training_log("qwen3.6-35b-a3b").read_text())
    assert [row["step"] for row in kept["iterations"]] == [1, 2, 3, 4] and kept["checkpoints"] == [2, 4]
    assert "at iteration 2" in log and " iteration        3/" in log and " iteration        1/" not in log


def test_cancelled_flow_cancels_its_job_and_a_failed_stage_ends_the_pipeline(ready, ui):
    behave(ready, **{"step-1": "wait"})
    settings = training_settings(ready, **SHORT).model_dump(mode="json", exclude_unset=True)
    folder = DataRoot(ready / "root").launch("train-model", "qwen3.6-35b-a3b")
    started = prefect(
        ui, "deployment", "run", "train-model/local", "-p", f"root={ready / 'root'}",
        "-p", f"training={json.dumps(settings)}", "-p", "launch=true",
    )  # fmt: skip
    assert started.returncode == 0, started.stdout + started.stderr
    record = until(lambda: read_record(folder), 120)
    until(lambda: slurm_tools.look(record.job_id).state == "RUNNING")
    listed = json.loads(prefect(ui, "flow-run", "ls", "--output", "json").stdout)
    cancelled = prefect(ui, "flow-run", "cancel", listed[0]["id"])
    assert cancelled.returncode == 0, cancelled.stdout + cancelled.stderr
    until(lambda: slurm_tools.look(record.job_id).state == "CANCELLED", 90)
    assert LaunchRecord.model_validate_json((folder / LAST_RECORD).read_bytes()) == record

    own = checkpoint_settings(ready, name="new").model_dump(mode="json", exclude_unset=True)
    failed = prefect(
        ui, "deployment", "run", "prepare-and-train/local", "-p", f"root={ready / 'root'}", "--watch",
        "-p", f"training={json.dumps(settings)}", "-p", f"checkpoint={json.dumps(own)}", "-p", "launch=true",
        "-p", "dataset_slice=no-such-slice",
    )  # fmt: skip
    assert failed.returncode != 0
    runs = json.loads(prefect(ui, "flow-run", "ls", "--output", "json").stdout)
    newest = {run["name"]: run for run in reversed(runs)}
    (pipeline,) = (run for name, run in newest.items() if name.startswith("prepare and train"))
    assert "no-such-slice" in json.dumps(pipeline) and "No stage after it was started" in json.dumps(pipeline)
    assert not any(name.startswith("import ") for name in newest)
