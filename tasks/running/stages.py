"""Ways to run the stages of a pipeline: as subflows in this process, or each as a run of its own deployment."""

import inspect
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast
from uuid import UUID

from prefect import Flow, get_run_logger, runtime
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun, State
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling
from pydantic import BaseModel

from tasks.contracts.errors import PipelineError, SettingsError
from tasks.running.stage_results import FOLDER_VARIABLE, read_stage_result

P = ParamSpec("P")
R = TypeVar("R")
Execution = Literal["here", "deployments"]

_POLL_SECONDS = 5


@dataclass(frozen=True)
class Stages:
    """A runner of stages. ``results`` is a folder, shared by all hosts, in which deployments return their results."""

    execution: Execution
    results: Path

    def run(self, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a stage, which is a flow, and return its result.

        Raises PipelineError if its own flow run fails, SettingsError if its deployment is missing.
        """
        if self.execution == "here":
            return stage(*args, **kwargs)
        flow = cast("Flow[P, R]", stage)
        parameters = inspect.signature(flow.fn).bind(*args, **kwargs).arguments
        child = _child(flow, parameters, self.results)
        state = finished(child)
        if not state.is_completed():
            raise PipelineError(f"{flow.name}: its flow run is {state.name}: {state.message}")
        return cast("R", read_stage_result(self.results, flow, str(child.id)))


def only_given(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters for a deployment as JSON, without settings that the caller did not set."""
    return {name: _as_json(value) for name, value in parameters.items()}


def _as_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    return str(value) if isinstance(value, Path) else value


def cancel_children(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Cancel the unfinished runs that this run started. A hook for ``on_cancellation``."""
    unfinished = {"type": {"not_any_": ["COMPLETED", "FAILED", "CRASHED", "CANCELLED", "CANCELLING"]}}
    wanted = FlowRunFilter.model_validate({"parent_flow_run_id": {"any_": [flow_run.id]}, "state": unfinished})
    with get_client(sync_client=True) as client:
        for child in client.read_flow_runs(flow_run_filter=wanted):
            if child.deployment_id:
                client.set_flow_run_state(child.id, Cancelling(message="The run that started it was cancelled."))


def _child(flow: Flow[P, R], parameters: dict[str, Any], results: Path) -> FlowRun:
    name = f"{flow.name}/{_own_suffix()}"
    return started(name, only_given(parameters), {"env": {FOLDER_VARIABLE: str(results)}})


def started(name: str, parameters: dict[str, Any], job_variables: dict[str, Any] | None = None) -> FlowRun:
    """Find the run of the deployment ``name`` that this parent started before, or start a new one.

    The idempotency key lets a rescheduled parent find its child. If an earlier child failed, crashed or was cancelled,
    a retry of the parent starts a new one. Raises SettingsError if the deployment is missing, or if its pool would
    never start the child.
    """
    _check_deployment(name)
    for attempt in itertools.count():
        child = run_deployment(
            name,
            parameters=parameters,
            job_variables=job_variables,
            idempotency_key=f"{runtime.flow_run.id}-{name.partition('/')[0]}-{attempt}",
            timeout=0,
        )
        if not isinstance(child, FlowRun):
            raise PipelineError(f"{name} gave no flow run; call it from a synchronous flow")
        if child.state is None or not child.state.is_final() or child.state.is_completed():
            get_run_logger().info("Stage %s is flow run %r", name, child.name)
            return child
    raise AssertionError


def _own_suffix() -> str:
    """Return the deployment suffix of the parent (local, slurm, …), which its stages use too. Raises SettingsError."""
    suffix: str | None = runtime.deployment.name
    if not suffix:
        raise SettingsError(
            "execution is 'deployments', but this run belongs to no deployment; start it with "
            "`prefect deployment run prepare-datacomp/slurm`, or set execution to 'here'"
        )
    return suffix


def _check_deployment(name: str) -> None:
    with get_client(sync_client=True) as client:
        try:
            child = client.read_deployment_by_name(name)
        except ObjectNotFound:
            raise SettingsError(
                f"there is no deployment {name}; make those of its work pool with `datacomp-energon deploy --pool …`"
            ) from None
        if runtime.deployment.id:
            _refuse_starvation(client, child.work_pool_name)


def _refuse_starvation(client: SyncPrefectClient, pool: str | None) -> None:
    # The parent occupies one slot of its pool while it waits for its child.
    own = client.read_deployment(runtime.deployment.id).work_pool_name
    if pool is not None and pool == own and client.read_work_pool(pool).concurrency_limit == 1:
        raise SettingsError(
            f"work pool {pool!r} runs one flow at a time, so that stages would wait for this run for ever; "
            f"raise its limit (prefect work-pool set-concurrency-limit {pool} 2) or set execution to 'here'"
        )


def finished(child: FlowRun) -> State[Any]:
    """Wait for a run and return its final state. Raises PipelineError if the run is deleted meanwhile."""
    with get_client(sync_client=True) as client:
        while True:
            state = _state(client, child.id)
            if state.is_final():
                return state
            time.sleep(_POLL_SECONDS)


def _state(client: SyncPrefectClient, run_id: UUID) -> State[Any]:
    try:
        run = client.read_flow_run(run_id)
    except ObjectNotFound:
        raise PipelineError(f"flow run {run_id} was deleted while its parent waited for it") from None
    if run.state is None:
        raise PipelineError(f"flow run {run_id} has no state")
    return run.state
