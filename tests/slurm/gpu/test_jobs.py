"""GPU jobs on a real Slurm, through stand-ins of Bridge's launchers that are as strict as the real ones."""

import re
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tasks.contracts.errors import PipelineError, SettingsError
from tasks.contracts.layout import DataRoot
from tasks.megatron import slurm as slurm_tools
from tasks.megatron.follow import check_end, follow
from tasks.megatron.launch import LAUNCHER_LOG, dry_run, is_launched, launch, read_record, settle
from tasks.megatron.render import render_import, render_training
from tasks.megatron.verify import check_imported
from tests.slurm.gpu.stand_in import SHORT, behave, until
from tests.tasks.megatron.jobs import checkpoint_settings, training_settings

pytestmark = pytest.mark.usefixtures("at_the_cluster")
POLL = 0.2


def launched(place: Path, settings: Any, said: list[str]) -> int:
    """Launch a training; return the job's id."""
    root = place / "root"
    folder = DataRoot(root).launch("train-model", settings.name)
    return launch(render_training(root, settings), root, folder, said.append)


def started(place: Path, settings: Any, said: list[str]) -> int:
    """Launch a training and wait until it trains; return the job's id."""
    job_id = launched(place, settings, said)
    logs = (place / "bridge").glob
    until(lambda: any(" iteration " in log.read_text() for log in logs(f"log-*_{job_id}_0.out")))
    return job_id


def test_import_runs_on_eight_gpus_and_leaves_a_checkpoint(place):
    root, settings = place / "root", checkpoint_settings(place, name="new")
    said: list[str] = []
    job_id = launch(render_import(root, settings), root, DataRoot(root).launch("import-checkpoint", "new"), said.append)
    job = follow(job_id, POLL, said.append)
    check_end(job)
    assert check_imported(root, settings) == root / "models" / "new" / "iter_0000000"
    shown = slurm_tools._ask("scontrol", "-o", "show", "job", str(job_id)).stdout
    # Slurm 22.05 writes gres:gpu, 24.11 gres/gpu.
    assert re.search("TresPerNode=gres.gpu:8", shown) and "NumNodes=1" in shown and "Account=vision" in shown
    (log,) = (place / "bridge").glob(f"log-*_{job_id}_0.out")
    assert sorted(re.findall(r"rank (\d) of 8", log.read_text())) == list("01234567")
    assert any("COMPLETED" in line for line in said)


def test_dry_run_renders_and_submits_nothing(place, slurm):
    before = slurm.job_ids()
    text = dry_run(render_import(place / "root", checkpoint_settings(place, name="new")), place / "launch")
    assert "#SBATCH --gpus-per-node=8" in text and "run_conversion.py import --device gpu" in text
    text = dry_run(render_training(place / "root", training_settings(place)), place / "launch")
    assert "run_recipe.py --recipe qwen35_vl_35b_a3b_pretrain_mock_config" in text
    unasked = render_training(place / "root", training_settings(place, gpu_resource_request=False))
    assert "gpus-per-node=" not in dry_run(unasked, place / "launch")
    assert slurm.job_ids() == before


def test_what_the_launcher_refuses_is_told_in_its_words(place):
    submission = render_import(place / "root", checkpoint_settings(place, name="new", tp=3))
    with pytest.raises(PipelineError, match=r"refuses its dry run .*divisible by TP\*PP"):
        dry_run(submission, place / "launch")
    with pytest.raises(PipelineError, match=r"named no Slurm job.*divisible by TP\*PP"):
        launch(submission, place / "root", place / "launch", print)
    bad = render_training(place / "root", training_settings(place, partition="nowhere"))
    with pytest.raises(PipelineError, match="invalid partition"):
        launch(bad, place / "root", place / "launch", print)
    assert read_record(place / "launch") is None


def test_job_is_found_where_nemo_run_fails_for_want_of_accounting(place, monkeypatch):
    home = place / "nemo-run"
    home.mkdir()
    (home / ".slurm_jobs").write_text("1 = log*,/elsewhere,LocalTunnel,{}\n")
    monkeypatch.setenv("NEMORUN_HOME", str(home))
    root, settings = place / "root", checkpoint_settings(place, name="new")
    job_id = launch(render_import(root, settings), root, DataRoot(root).launch("import-checkpoint", "new"), print)
    assert follow(job_id, POLL, print).state == "COMPLETED"
    check_imported(root, settings)


def test_launcher_that_waits_for_ever_ends_with_its_job(place):
    behave(place, launcher="wait")
    root, settings = place / "root", checkpoint_settings(place, name="new")
    folder = DataRoot(root).launch("import-checkpoint", "new")
    job_id = launch(render_import(root, settings), root, folder, print)
    assert follow(job_id, POLL, print).state == "COMPLETED"
    launcher = read_record(folder).launcher
    assert Path(f"/proc/{launcher}").exists()
    settle(folder)
    assert not Path(f"/proc/{launcher}").exists() and read_record(folder) is None


def test_variables_reach_the_job_by_name_only(place, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    root, settings = place / "root", checkpoint_settings(place, name="new", env=("HF_TOKEN",))
    folder = DataRoot(root).launch("import-checkpoint", "new")
    job = follow(launch(render_import(root, settings), root, folder, print), POLL, print)
    assert job.state == "COMPLETED"
    for path in [*place.rglob("*.sbatch"), *place.rglob("*.out"), *folder.iterdir()]:
        assert "hf_very_secret" not in path.read_text()


def test_failed_job_tells_state_reason_and_last_words(place):
    behave(place, **{"train-start": "fail"})
    said: list[str] = []
    job = follow(launched(place, training_settings(place, **SHORT), said), POLL, said.append)
    with pytest.raises(PipelineError) as caught:
        check_end(job)
    for part in (f"Slurm job {job.job_id} is FAILED", "NonZeroExitCode", "exit 3:0", "NCCL fell over at train-start"):
        assert part in str(caught.value)


def test_run_that_was_killed_finds_its_job_again(place):
    behave(place, **{"step-1": "wait"})
    root, settings, said = place / "root", training_settings(place, **SHORT), []
    folder = DataRoot(root).launch("train-model", settings.name)
    job_id = started(place, settings, said)
    # The run has ended and a checkpoint exists by now, so the command would differ: the job is the same.
    saved = root / "training" / settings.name / "checkpoints"
    (saved / "iter_0000001").mkdir(parents=True)
    (saved / "iter_0000001" / "common.pt").touch()
    (saved / "iter_0000001" / "run_config.yaml").touch()
    (saved / "latest_checkpointed_iteration.txt").write_text("1")
    assert launch(render_training(root, settings), root, folder, said.append) == job_id
    other = training_settings(place, **{**SHORT, "max_steps": 3})
    with pytest.raises(SettingsError, match=f"Slurm job {job_id} is RUNNING.*other settings"):
        launch(render_training(root, other), root, folder, said.append)
    behave(place)
    assert follow(job_id, POLL, said.append).state == "COMPLETED"
    settle(folder)
    again = launch(render_training(root, settings), root, folder, said.append)
    assert again != job_id


def test_launcher_that_outlives_a_killed_run_is_heard_to_its_end(place, slurm):
    behave(place, submit="wait")
    root, settings, said = place / "root", training_settings(place, **SHORT), []
    folder, before = DataRoot(root).launch("train-model", settings.name), set(slurm.job_ids())
    run = get_context("fork").Process(target=launched, args=(place, settings, said))
    run.start()
    until(lambda: (folder / LAUNCHER_LOG).exists())
    run.kill()
    run.join()
    assert is_launched(render_training(root, settings), root, folder) and read_record(folder) is None
    with ThreadPoolExecutor(1) as pool:
        again = pool.submit(launched, place, settings, said)
        with pytest.raises(TimeoutError):
            again.result(1)
        behave(place)
        job_id = again.result(60)
    assert set(slurm.job_ids()) - before == {job_id} and "joining" in said[0]
    assert follow(job_id, POLL, print).state == "COMPLETED"
    settle(folder)
    assert not list(folder.glob(".launcher-*")) and not (folder / "launching.json").exists()


def test_cancelled_job_is_no_success(place):
    behave(place, **{"step-1": "wait"})
    job_id = started(place, training_settings(place, **SHORT), [])
    slurm_tools.cancel(job_id)
    job = follow(job_id, POLL, print)
    with pytest.raises(PipelineError, match=r"CANCELLED.*launch again to go on from the newest checkpoint"):
        check_end(job)
    slurm_tools.cancel(job_id)  # a second time: the job has ended, which is not an error


def test_preempted_job_is_followed_through_its_requeue(place, slurm):
    slurm.command("scontrol", "create", "PartitionName=scavenge", "Nodes=g[1-2]", "PriorityTier=1", "MaxTime=1-0")
    behave(place, **{"step-2": "wait"})
    said: list[str] = []
    settings = training_settings(place, **SHORT, partition="scavenge")
    job_id = started(place, settings, said)
    urgent = slurm.command(
        "sbatch", "--parsable", "-p", "gpu", "-N2", "--exclusive", "--output=/dev/null", "--wrap=sleep 1"
    ).strip()
    until(lambda: slurm_tools.look(job_id).restarts == 1)
    behave(place)
    job = follow(job_id, POLL, said.append)
    assert (job.state, job.restarts) == ("COMPLETED", 1)
    assert slurm_tools.look(int(urgent)).state == "COMPLETED"


def test_time_limit_is_told_with_a_way_out(place, slurm):
    behave(place, **{"step-1": "wait"})
    job_id = started(place, training_settings(place, **SHORT), [])
    # Set the time limit to the past: slurmctld checks every 30 s.
    slurm.command("scontrol", "update", f"jobid={job_id}", "endtime=now")
    job = follow(job_id, POLL, print)
    with pytest.raises(PipelineError, match=r"TIMEOUT.*more time_limit, or launch again"):
        check_end(job)


def test_job_that_slurm_forgot_is_lost_not_done(place):
    job = follow(99_999, 0.05, print)
    with pytest.raises(PipelineError, match=r"Slurm job 99999 is LOST: Slurm does not remember it"):
        check_end(job)


def test_silent_slurm_is_asked_again_until_it_answers(place, slurm):
    behave(place, **{"step-1": "wait"})
    job_id, said = started(place, training_settings(place, **SHORT), []), []
    # Stop cleanly: a controller that crashes before it has saved its state forgets the job permanently.
    slurm.command("scontrol", "shutdown", "slurmctld")
    try:
        with ThreadPoolExecutor(1) as pool:
            following = pool.submit(follow, job_id, POLL, said.append)
            until(lambda: any("does not answer" in line for line in said))
            assert not following.done()
            slurm.start_controller()
            behave(place)
            assert following.result(60).state == "COMPLETED"
    finally:
        if "is UP" not in slurm.command("scontrol", "ping", check=False):
            slurm.start_controller()
