"""State changes of flow runs on Prefect's server while their jobs wait, and after they end."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, WorkPoolFilter
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import AwaitingRetry, Cancelled, Crashed, Failed, Pending

from deployments.slurm.verdict import Fate, Verdict
from tasks.contracts.exit_status import name_signals

# The server rejects a pending state with the same name as the previous one, so two names alternate.
_PENDING_NAMES = ("InfrastructurePending", "SlurmPending")
_RESCHEDULED = "Rescheduled: "
_PAGE = 200


async def read_run(client: PrefectClient, flow_run_id: UUID) -> FlowRun | None:
    """Return the flow run, or None if it was deleted."""
    try:
        return await client.read_flow_run(flow_run_id)
    except ObjectNotFound:
        return None


async def read_pool_runs(client: PrefectClient, pool: str, wanted: Mapping[str, Any]) -> list[FlowRun]:
    """Read all flow runs of a work pool that match the filter ``wanted``."""
    runs: list[FlowRun] = []
    while True:
        page = await client.read_flow_runs(
            flow_run_filter=FlowRunFilter.model_validate(wanted),
            work_pool_filter=WorkPoolFilter.model_validate({"name": {"any_": [pool]}}),
            limit=_PAGE,
            offset=len(runs),
        )
        runs += page
        if len(page) < _PAGE:
            return runs


async def tell_pending(client: PrefectClient, flow_run_id: UUID, message: str) -> None:
    """Set the message of a pending run to why its job waits. Skip runs that are not pending."""
    run = await read_run(client, flow_run_id)
    if run is None or run.state is None or not run.state.is_pending() or run.state.message == message:
        return
    first, second = _PENDING_NAMES
    name = second if run.state.name == first else first
    await client.set_flow_run_state(flow_run_id, Pending(name=name, message=message))


async def tell_requeued(client: PrefectClient, flow_run_id: UUID, message: str) -> None:
    """Set a running or crashed run to Pending, because Slurm requeued its job."""
    run = await read_run(client, flow_run_id)
    if run is None or run.state is None or not (run.state.is_running() or run.state.is_crashed()):
        return
    # By force: the server would treat a pending state after a running one as a second submission.
    await client.set_flow_run_state(flow_run_id, Pending(name=_PENDING_NAMES[0], message=message), force=True)


async def count_reschedules(client: PrefectClient, flow_run_id: UUID) -> int:
    """Count how often workers have rescheduled this run, from its history on the server."""
    states = await client.read_flow_run_states(flow_run_id)
    return sum(bool(state.message and state.message.startswith(_RESCHEDULED)) for state in states)


async def reschedule(client: PrefectClient, flow_run_id: UUID, message: str) -> bool:
    """Reschedule the run for now; return whether the server accepted it."""
    state: State[None] = AwaitingRetry(message=_RESCHEDULED + message)
    answer = await client.set_flow_run_state(flow_run_id, state)
    return answer.state is not None and answer.state.is_scheduled()


async def settle(client: PrefectClient, run: FlowRun, verdict: Verdict) -> str:
    """Set the flow run's final state from its job, unless the run already reported one.

    Returns what was done, for the log. One exception: Slurm's cause replaces a Crashed state that the process reported
    after a SIGTERM.
    """
    state = run.state
    if state is not None and state.is_cancelling():
        await client.set_flow_run_state(run.id, Cancelled(message=verdict.message), force=True)
        return "cancelled"
    if state is not None and (state.is_scheduled() or state.is_paused()):
        return "left to its schedule"
    if state is not None and state.is_final() and not (state.is_crashed() and verdict.overrules_crash):
        words = name_signals(state.message or "")
        if state.is_crashed() and words != state.message:
            await client.set_flow_run_state(run.id, Crashed(message=f"{words} {verdict.message}"), force=True)
        return f"left as {state.name}"
    return await _set_end(client, run, verdict)


async def _set_end(client: PrefectClient, run: FlowRun, verdict: Verdict) -> str:
    if verdict.fate is Fate.RESCHEDULED:
        if await reschedule(client, run.id, verdict.message):
            return "rescheduled"
        end: State[None] = Crashed(message=f"{verdict.message}; the server refused to schedule it again")
    elif verdict.fate is Fate.COMPLETED:
        end = Crashed(message=f"{verdict.message}, but the flow run told no end; see the job's log")
    else:
        make = {Fate.CANCELLED: Cancelled, Fate.FAILED: Failed, Fate.CRASHED: Crashed}[verdict.fate]
        end = make(message=verdict.message)
    # Force only to replace a Crashed state from the process; otherwise the flow's own retries apply.
    crashed = run.state is not None and run.state.type == StateType.CRASHED
    await client.set_flow_run_state(run.id, end, force=crashed)
    return end.name or verdict.fate.value
