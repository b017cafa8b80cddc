"""Settlement of a run whose job has ended: its final state is set once, even with several workers or API outages."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from prefect.client.schemas.objects import FlowRun

from deployments.slurm import states
from deployments.slurm.context import WorkerContext
from deployments.slurm.environment import remove_environment
from deployments.slurm.job_log import unreachable_api
from deployments.slurm.supervised import Supervised
from deployments.slurm.verdict import Fate, Verdict, judge
from tasks.io.locks import exclusive
from tasks.slurm.job_folder import log_tail
from tasks.slurm.reports import JobReport, read_receipt

_SETTLED_FILE = "settled"
_LONGEST_DELAY = 60  # seconds


async def settle_with_patience(worker: WorkerContext, job: Supervised, report: JobReport) -> None:
    """Set the final state of a run from its ended job. Retry until the API accepts it."""
    delay = 1.0
    while True:
        try:
            with _alone(job.folder) as settled:
                if not settled:
                    await _settle(worker, job, report)
                return
        except BlockingIOError:
            pass  # another worker is settling it
        except Exception as error:
            worker.logger.warning("Job %s has ended, but the API does not take it: %s", job.pid, error)
        await asyncio.sleep(delay)
        delay = min(delay * 2, _LONGEST_DELAY)


@contextlib.contextmanager
def _alone(folder: Path | None) -> Iterator[bool]:
    """Lock the job's settlement; yield whether it was settled before. Raises BlockingIOError if it is locked.

    Two workers of one pool watch the same jobs. Without the lock both could reschedule a run. If a new job had
    started meanwhile, the second reschedule would start a third one. The lock ends with its holder.
    """
    if folder is None or not folder.is_dir():
        yield False
        return
    note = folder / _SETTLED_FILE
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(exclusive(note, wait=False))
        except BlockingIOError:
            raise
        except OSError:
            pass  # a full log directory must not prevent the final state
        yield note.is_file() and note.stat().st_size > 0
        with contextlib.suppress(OSError):
            note.write_text("settled\n", encoding="ascii")


async def _settle(worker: WorkerContext, job: Supervised, report: JobReport) -> None:
    run = await states.read_run(worker.client, job.flow_run_id)
    if job.folder:
        remove_environment(job.folder)
    if run is None or run.infrastructure_pid not in (None, str(job.pid)):
        return
    receipt = read_receipt(job.folder) if job.folder else None
    verdict = judge(report, receipt, job.variables, await states.count_reschedules(worker.client, run.id))
    if job.folder and run.start_time is None and (why := unreachable_api(job.folder, str(worker.client.api_url))):
        verdict = replace(verdict, message=f"{verdict.message}: {why}")
    done = await states.settle(worker.client, run, verdict)
    worker.get_flow_run_logger(run).info("%s. The run was %s.", verdict.message, done)
    _show_log(worker, job, run, verdict)


def _show_log(worker: WorkerContext, job: Supervised, run: FlowRun, verdict: Verdict) -> None:
    # A run that started has its own log. For one that never started, the job's log is the only source.
    expected = verdict.fate in {Fate.CANCELLED, Fate.RESCHEDULED} or (run.state and run.state.is_cancelling())
    if run.start_time is not None or job.folder is None or expected:
        return
    if unreachable_api(job.folder, str(worker.client.api_url)):
        return  # the state's message says it, without a hundred lines of stack trace
    tail = log_tail(job.folder)
    words = f"The last lines of the job's log:\n{tail}" if tail else "The job left no log."
    worker.get_flow_run_logger(run).error("The run died before it reached the API. %s", words)
