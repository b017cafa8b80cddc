"""The verdict on a flow run whose job has ended, based on Slurm's state and not on the signal that it got."""

from dataclasses import dataclass
from enum import Enum

from tasks.contracts.exit_status import exit_code_words, signal_name
from tasks.contracts.job_variables import JobVariables
from tasks.slurm.reports import JobReport, Receipt

LOST = "LOST"  # our own state for a job that Slurm does not know any more
_OUT_OF_MEMORY_SIGNAL = 125  # Slurm's code for a step that the kernel killed for its memory
_LAUNCH_SIGNAL = 53  # Slurm's code for a job whose output or working directory could not be opened


class Fate(Enum):
    """The final state of the flow run, unless it already reported its own."""

    COMPLETED = "completed"
    CRASHED = "crashed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RESCHEDULED = "rescheduled"


@dataclass(frozen=True)
class Verdict:
    """The fate of a run, and a message with the cause."""

    fate: Fate
    message: str
    # A process does not know why it got SIGTERM, and may report Crashed; Slurm knows the cause.
    overrules_crash: bool = False


def judge(report: JobReport, receipt: Receipt | None, variables: JobVariables, reschedules: int) -> Verdict:
    """Return the verdict on the run of an ended job. ``reschedules``: earlier reschedules of this run."""
    receipt = _of_this_attempt(receipt, report)
    fate = _fate(report, receipt, variables)
    message = describe(report, receipt)
    slurm_knows = report.state not in {"FAILED", "COMPLETED", LOST} or _at_time_limit(report, receipt)
    if fate is Fate.RESCHEDULED and reschedules >= variables.max_reschedules:
        fate = Fate.CRASHED
        message += f"; not rescheduled: max_reschedules ({variables.max_reschedules}) is reached"
    return Verdict(fate, message, overrules_crash=slurm_knows)


def describe(report: JobReport, receipt: Receipt | None) -> str:
    """Return one sentence with the cause according to Slurm: what ended the job, where, after how long."""
    where = f" on {report.nodes}" if report.nodes else ""
    # Prefer the script's own count: Slurm keeps counting until it gives up a failed node.
    elapsed = receipt.elapsed if receipt else report.elapsed
    after = f" after {duration(elapsed)}" if elapsed is not None else ""
    return (
        f"Slurm job {report.job_id}{where} {_cause(report, receipt)}{after} ({report.state}){_advice(report, receipt)}"
    )


def _advice(report: JobReport, receipt: Receipt | None) -> str:
    if _at_time_limit(report, receipt):
        return "; ask for more time (time_limit)"
    return "; ask for more memory (mem)" if _out_of_memory(report) else ""


def duration(value: int | None) -> str:
    """Format seconds as H:MM:SS."""
    if value is None:
        return "unknown time"
    hours, rest = divmod(value, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


def _fate(report: JobReport, receipt: Receipt | None, variables: JobVariables) -> Fate:
    if report.state == "CANCELLED":
        return Fate.CANCELLED
    if report.state in {"PREEMPTED", "NODE_FAIL", "BOOT_FAIL"}:
        # Not requeued by Slurm: the poller keeps watching a requeued job.
        return Fate.RESCHEDULED
    if _at_time_limit(report, receipt):
        return Fate.RESCHEDULED if variables.on_time_limit == "reschedule" else Fate.FAILED
    if report.state == "COMPLETED" or (report.state == LOST and receipt and receipt.exit_code == 0):
        return Fate.COMPLETED
    return Fate.CRASHED


def _cause(report: JobReport, receipt: Receipt | None) -> str:
    if report.state == LOST:
        return _cause_when_lost(receipt)
    if _at_time_limit(report, receipt):
        reached = "reached" if report.state == "TIMEOUT" else "was told to end before"
        return f"{reached} its time limit of {duration(report.time_limit)}"
    if _out_of_memory(report):
        requested = f"requested {report.memory or 'the default'}"
        return f"ran out of memory ({requested}{_used(report, receipt)})"
    causes = {
        "CANCELLED": f"was cancelled{f' by user {report.cancelled_by}' if report.cancelled_by else ''}",
        "PREEMPTED": "was preempted by a job of higher priority",
        "NODE_FAIL": "ended because its node failed",
        "BOOT_FAIL": "ended because its node did not boot",
        "DEADLINE": "reached its deadline",
        "REVOKED": "was revoked by its federation",
        "COMPLETED": "ended with exit code 0",
    }
    return causes.get(report.state) or _exit(report, receipt)


def _used(report: JobReport, receipt: Receipt | None) -> str:
    # The kernel's peak is exact. Accounting samples and misses short peaks.
    if receipt and receipt.memory_peak:
        return f", used {receipt.memory_peak / 2**20:.0f}M"
    return f", used {report.memory_used}" if report.memory_used else ""


def _exit(report: JobReport, receipt: Receipt | None) -> str:
    if report.signal == _LAUNCH_SIGNAL:
        return "could not be launched: its working or log directory cannot be opened on the node"
    if report.signal:
        return f"was ended by signal {report.signal} ({signal_name(report.signal)})"
    if receipt and receipt.signal == "TERM":
        return f"got SIGTERM from outside and ended with {exit_code_words(report.exit_code)}"
    return f"ended with {exit_code_words(report.exit_code)}"


def _cause_when_lost(receipt: Receipt | None) -> str:
    if receipt is None:
        return "is unknown to Slurm and left no exit receipt; its node may have failed, or it was purged"
    by = f" after SIG{receipt.signal}" if receipt.signal else ""
    return f"is no longer known to Slurm; its exit receipt says {exit_code_words(receipt.exit_code)}{by}"


def _at_time_limit(report: JobReport, receipt: Receipt | None) -> bool:
    # Only --signal sends SIGUSR1, before the limit. The job then ends by itself, as FAILED.
    return report.state == "TIMEOUT" or (
        report.state in {"FAILED", "COMPLETED", LOST} and receipt is not None and receipt.signal == "USR1"
    )


def _out_of_memory(report: JobReport) -> bool:
    marks = {report.signal, report.step_signal}
    return report.state == "OUT_OF_MEMORY" or (report.state == "FAILED" and _OUT_OF_MEMORY_SIGNAL in marks)


def _of_this_attempt(receipt: Receipt | None, report: JobReport) -> Receipt | None:
    if receipt is None or receipt.job_id != report.job_id or receipt.restarts < report.restarts:
        return None
    return receipt
