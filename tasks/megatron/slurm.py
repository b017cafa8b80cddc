"""State of a Slurm job, and its cancellation, through Slurm's command line tools."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tasks.contracts.errors import PipelineError, TransientError

LOST = "LOST"
"""State, not one of Slurm's, for a job that neither slurmctld nor accounting knows."""

_LIVE = frozenset(
    {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "REQUEUED"}
    | {"REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "COMPLETING"}
)
# SLURM_* variables of an allocation would change what the commands do; SLURM_CONF selects the cluster.
_KEPT = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "SLURM_CONF", "TZ", "USER")
_UNKNOWN = "Invalid job id specified"
_NO_ACCOUNTING = ("accounting storage is disabled", "no accounting")
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Job:
    """A job at one moment, in Slurm's terms. ``log``: the file that its batch script writes to."""

    job_id: int
    state: str
    reason: str = ""
    exit_code: str = ""
    nodes: str = ""
    elapsed: str = ""
    restarts: int = 0
    log: Path | None = None

    @property
    def ended(self) -> bool:
        """Whether the job is over and its state will not change again."""
        return self.state not in _LIVE

    def __str__(self) -> str:
        details = [f"reason {self.reason}"] if self.reason else []
        details += [f"exit {self.exit_code}"] if self.ended and self.exit_code else []
        details += [f"on {self.nodes}"] if self.nodes else []
        details += [f"after {self.elapsed}"] if self.elapsed and self.state != "PENDING" else []
        details += [f"requeued {self.restarts} times"] if self.restarts else []
        return f"Slurm job {self.job_id} is {self.state}" + (f" ({', '.join(details)})" if details else "")


def look(job_id: int) -> Job:
    """Query a job: in slurmctld, then in accounting, else LOST. Raises TransientError if Slurm does not answer."""
    answer = _ask("scontrol", "-o", "show", "job", str(job_id))
    if answer.returncode == 0:
        return _from_scontrol(job_id, answer.stdout)
    if _UNKNOWN not in answer.stderr:
        raise TransientError(f"scontrol: {answer.stderr.strip() or answer.returncode}")
    fields = "State,ExitCode,Elapsed,NodeList,Reason"
    return _from_sacct(job_id, _ask("sacct", "-n", "-P", "-X", "-j", str(job_id), "-o", fields))


def cancel(job_id: int) -> None:
    """Cancel a job unless it has already ended. Raises PipelineError if Slurm rejects the request."""
    answer = _ask("scancel", str(job_id))
    if answer.returncode and _UNKNOWN not in answer.stderr:
        raise PipelineError(f"scancel {job_id}: {answer.stderr.strip()}; cancel the job by hand")


def _ask(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    try:
        return subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS
        )
    except FileNotFoundError:
        if command[0] == "sacct":
            return subprocess.CompletedProcess(command, 1, "", "no accounting")
        raise PipelineError(f"{command[0]} is not on the PATH: run this where Slurm's commands are") from None
    except subprocess.TimeoutExpired:
        raise TransientError(f"{command[0]}: no answer within {_TIMEOUT_SECONDS} s") from None


def _from_scontrol(job_id: int, text: str) -> Job:
    # The job's name comes first and may contain anything, so parse only the fields after it.
    fields = dict(re.findall(r" (\S+?)=(\S*)", text[text.find(" UserId=") :]))
    log = fields.get("StdOut", "")
    return Job(
        job_id=job_id,
        state=fields["JobState"],
        reason=_none_as_empty(fields.get("Reason", "")),
        exit_code=fields.get("ExitCode", ""),
        nodes=_none_as_empty(fields.get("NodeList", "")),
        elapsed=fields.get("RunTime", ""),
        restarts=int(fields.get("Restarts", "0")),
        log=Path(log.replace("%j", str(job_id))) if log.startswith("/") else None,
    )


def _from_sacct(job_id: int, answer: subprocess.CompletedProcess[str]) -> Job:
    rows = [line.split("|") for line in answer.stdout.splitlines() if line.count("|") >= 4]
    if answer.returncode and not any(text in answer.stderr for text in _NO_ACCOUNTING):
        raise TransientError(f"sacct: {answer.stderr.strip() or answer.returncode}")
    if not rows:
        return Job(job_id, LOST)
    state, exit_code, elapsed, nodes, reason = rows[-1][:5]
    return Job(
        job_id=job_id,
        state=state.partition(" by ")[0],
        reason=_none_as_empty(reason),
        exit_code=exit_code,
        nodes=_none_as_empty(nodes),
        elapsed=elapsed,
    )


def _none_as_empty(text: str) -> str:
    return "" if text in {"None", "(null)", "None assigned", "N/A", "n/a", "Unknown"} else text
