"""The command of a job: ``prefect flow-run execute``, but only if the run still belongs to this job.

The job's exit status mirrors its run's state, so that sacct, ``afterok`` and ``--mail-type=FAIL`` are correct.
"""

import os
import re
import runpy
import sys
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from deployments.patience import PATIENCE_SECONDS, ask_with_patience
from deployments.slurm.pid import JobPid
from tasks.contracts.errors import PipelineError

NOT_STARTED = "The job could not start its run"
COMMAND = "python3 -m deployments.slurm.attempt"
_PREFECT = ["prefect", "flow-run", "execute"]
# Only the message of a crash contains the exit status of the flow's process; a negative one is a signal.
_STATUS = re.compile(r"status code:? (-?\d+)")


def main() -> int:
    """Execute the run in ``PREFECT__FLOW_RUN_ID`` and return the job's exit status."""
    flow_run_id = UUID(os.environ["PREFECT__FLOW_RUN_ID"])
    try:
        why = superseded(_read(flow_run_id), _own_pid(), _restarts())
    except PipelineError as error:
        _print(f"{NOT_STARTED}: {error}")
        return 1
    if why:
        _print(f"Nothing to execute: {why}.")
        return 0
    code = _execute()
    try:
        return code or exit_status(_read(flow_run_id))
    except PipelineError as error:
        _print(f"How the run ended is not known: {error}")
        return 1


def superseded(run: FlowRun, own: JobPid, restarts: int) -> str | None:
    """Return why the job must not execute the run any more, or None if the run still belongs to the job.

    Job ids increase. The id on the server may be an earlier job's, since the worker updates it after the submission.
    """
    state = run.state
    # After SIGTERM the process may report Crashed before Slurm requeues its job.
    requeued = restarts > 0 and state is not None and state.is_crashed()
    if state is not None and state.is_final() and not requeued:
        return f"flow run {run.id} is already {state.name}"
    newest = _parse(run.infrastructure_pid)
    if newest and newest.cluster == own.cluster and newest.job_id > own.job_id:
        return f"flow run {run.id} belongs to Slurm job {newest.job_id} now"
    return None


def exit_status(run: FlowRun) -> int:
    """Return the exit status that mirrors the run's state, 128 + n if signal n ended the flow's process."""
    state = run.state
    if state is None or not state.is_final() or state.is_completed():
        return 0
    found = _STATUS.search(state.message or "") if state.is_crashed() else None
    code = int(found[1]) if found else 1
    return 128 - code if code < 0 else code or 1


def _parse(infrastructure_pid: str | None) -> JobPid | None:
    try:
        return JobPid.parse(infrastructure_pid or "")
    except ValueError:
        return None


def _own_pid() -> JobPid:
    return JobPid(os.environ.get("SLURM_CLUSTER_NAME", ""), int(os.environ["SLURM_JOB_ID"]))


def _restarts() -> int:
    return int(os.environ.get("SLURM_RESTART_COUNT") or 0)


def _read(flow_run_id: UUID) -> FlowRun:
    return ask_with_patience(lambda client: client.read_flow_run(flow_run_id), _print, PATIENCE_SECONDS)


def _execute() -> int:
    """Run Prefect's command in this process, which receives the job's signals; return the exit status."""
    sys.argv = _PREFECT
    try:
        runpy.run_module("prefect", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _print(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
