"""prepare-and-train on a real Prefect server: its stages are real deployments, and the test acts as their worker."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed, Failed

from flows.checkpoint import import_checkpoint
from flows.pipeline import prepare_and_train
from flows.prepare import prepare_datacomp
from flows.training import train_model
from tasks.running import stages
from tests.tasks.megatron.jobs import checkpoint_settings, training_settings

STAGES = {"prepare-datacomp": prepare_datacomp, "import-checkpoint": import_checkpoint, "train-model": train_model}


class Worker:
    """A worker that ends every run of a deployment immediately: the chosen stage fails, all others complete."""

    def __init__(self, client: SyncPrefectClient) -> None:
        self.client = client
        self.names: dict[Any, str] = {}
        self.failing = ""
        self.ran: list[FlowRun] = []
        self.over = threading.Event()

    def deploy(self, suffix: str) -> None:
        """Deploy the three stages; no worker polls the pool."""
        for name, flow in STAGES.items():
            self.names[flow.to_deployment(suffix).apply()] = f"{name}/{suffix}"

    def stages(self) -> list[str]:
        """Return the deployments that ran, in order."""
        return [self.names[run.deployment_id] for run in self.ran]

    def work(self) -> None:
        """End scheduled runs until ``over`` is set."""
        scheduled = {"state": {"type": {"any_": ["SCHEDULED"]}}, "deployment_id": {"any_": list(self.names)}}
        while not self.over.wait(0.1):
            for run in self.client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(scheduled)):
                self.ran.append(run)
                failed = self.names[run.deployment_id].startswith(self.failing or "none")
                end = Failed(message="the gate did not open") if failed else Completed()
                self.client.set_flow_run_state(run.id, end, force=True)


@pytest.fixture(scope="module")
def one_worker(prefect_server: str) -> Iterator[Worker]:
    """A worker for the whole module, since deploying takes seconds."""
    with get_client(sync_client=True) as client, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "_POLL_SECONDS", 0.1)
        worker = Worker(client)
        for suffix in ("here", "local"):
            worker.deploy(suffix)
        thread = threading.Thread(target=worker.work)
        thread.start()
        yield worker
        worker.over.set()
        thread.join()
        for deployment in worker.names:
            client.delete_deployment(deployment)


@pytest.fixture
def worker(one_worker: Worker) -> Worker:
    """The worker, reset: it has run nothing and no stage fails."""
    one_worker.ran, one_worker.failing = [], ""
    return one_worker


def run(folder: Path, **parameters: Any) -> Any:
    """Run the pipeline; return its final state."""
    given = {"checkpoint": checkpoint_settings(folder), "training": training_settings(folder), "suffix": "here"}
    return prepare_and_train(folder / "root", **{**given, **parameters}, return_state=True)


def test_stages_run_one_after_the_other_on_what_the_one_before_left(worker, tmp_path):
    state = run(tmp_path, launch=True, dataset_name="mine")
    assert state.is_completed(), state.message
    assert worker.stages() == ["prepare-datacomp/here", "import-checkpoint/local", "train-model/local"]
    prepare, importing, training = (run.parameters for run in worker.ran)
    assert prepare == {
        "root": str(tmp_path / "root"),
        "dataset_slice": "datacomp-1b-tutorial",
        "dataset_name": "mine",
        "cluster": "local",
    }
    assert importing["launch"] is True and "tp" not in importing["checkpoint"]
    assert training["training"]["dataset_dir"] == f"{tmp_path}/root/mine"
    model = f"{tmp_path}/root/models/qwen3.6-35b-a3b-megatron/iter_0000000"
    assert training["training"]["checkpoint"] == model
    assert list(state.result().stages) == list(STAGES)


@pytest.mark.parametrize("failing", STAGES)
def test_first_gate_that_does_not_open_ends_the_pipeline(worker, tmp_path, failing):
    worker.failing = failing
    state = run(tmp_path, launch=True)
    assert state.is_failed() and f"{failing} (flow run " in state.message
    assert "ended Failed: the gate did not open. No stage after it was started" in state.message
    names = list(STAGES)
    assert [name.partition("/")[0] for name in worker.stages()] == names[: names.index(failing) + 1]


def test_jobs_that_hold_their_gpus_run_where_the_preparation_does(worker, tmp_path):
    own = {"checkpoint": checkpoint_settings(tmp_path, run_by="allocation")}
    state = run(tmp_path, **own, launch=True, training=training_settings(tmp_path, run_by="allocation"))
    assert state.is_completed(), state.message
    assert worker.stages() == ["prepare-datacomp/here", "import-checkpoint/here", "train-model/here"]


def test_without_launch_a_training_is_shown_once_there_is_a_checkpoint(worker, tmp_path):
    assert run(tmp_path).is_completed()
    assert worker.stages() == ["prepare-datacomp/here", "import-checkpoint/local"]
    assert not any(run.parameters.get("launch") for run in worker.ran)


def test_what_cannot_be_trained_is_told_before_days_of_preparation(worker, tmp_path):
    state = run(tmp_path, training=training_settings(tmp_path, gpus_per_node=4))
    assert state.is_failed() and "4 GPUs" in state.message and worker.ran == []


def test_stage_without_a_deployment_is_told(worker, tmp_path):
    state = run(tmp_path, suffix="nowhere")
    assert state.is_failed() and "there is no deployment prepare-datacomp/nowhere" in state.message
