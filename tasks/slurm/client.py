"""A client that runs Slurm's command line tools with a minimal environment, a timeout and clear errors."""

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tasks.contracts.errors import PipelineError, TransientError
from tasks.slurm.job_folder import executes
from tasks.slurm.reports import parse_default_time

# Jobs inherit the environment of sbatch: SLURM_* and SBATCH_* would change them, others may be secret.
_KEPT = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "SLURM_CONF", "TZ", "USER")
# Temporary errors: texts from Slurm's own error table and from its sockets.
_UNAVAILABLE = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Connection (refused|reset|timed out)|Zero Bytes were"
    r"|in standby mode|temporarily unable|temporarily unavailable|try again|Communication connection failure"
    r"|Unable to establish|persistent connection|Transport endpoint|Protocol authentication error|Munge",
    re.IGNORECASE,
)
UNKNOWN_JOB = "Invalid job id specified"
NO_ACCOUNTING = "accounting storage is disabled"


class SlurmUnavailable(TransientError):
    """Slurm did not answer, so the state of jobs is unknown."""


class SlurmRefused(PipelineError):
    """Slurm answered with an error."""


@dataclass(frozen=True)
class Answer:
    """The exit code and output of a command."""

    code: int
    out: str
    error: str


def kept_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of ``environment`` that Slurm's commands get, and through sbatch every job."""
    return {name: environment[name] for name in _KEPT if name in environment}


@dataclass(frozen=True)
class Slurm:
    """A client of Slurm's command line tools. ``timeout`` is in seconds, per command."""

    environment: Mapping[str, str] = field(default_factory=lambda: kept_environment(os.environ))
    timeout: float = 60

    async def ask(self, *arguments: str) -> Answer:
        """Run a command and return its answer, whatever the exit code.

        Raises SlurmUnavailable if the command is missing, takes too long, or cannot reach a daemon.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                env=dict(self.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise SlurmUnavailable(
                f"{arguments[0]}: {error.strerror}; the worker must run where Slurm's commands are installed"
            ) from None
        answer = await self._finish(process, arguments[0])
        if answer.code and _UNAVAILABLE.search(answer.error):
            raise SlurmUnavailable(f"{arguments[0]}: {answer.error}")
        return answer

    async def run(self, *arguments: str) -> str:
        """Run a command that must succeed and return its standard output. Raises SlurmRefused with Slurm's message."""
        answer = await self.ask(*arguments)
        if answer.code:
            raise SlurmRefused(f"{arguments[0]}: {answer.error or f'exit status {answer.code}'}")
        return answer.out

    async def cluster_name(self) -> str:
        """Return the ClusterName in this cluster's configuration."""
        text = await self.run("scontrol", "show", "config")
        found = re.search(r"^ClusterName\s*=\s*(\S+)", text, re.MULTILINE)
        if not found:
            raise SlurmUnavailable("scontrol show config names no ClusterName")
        return found[1]

    async def submit(self, script: str) -> int:
        """Submit the batch script at ``script`` and return the job id."""
        out = await self.run("sbatch", "--parsable", script)
        found = re.match(r"(\d+)(;\S+)?\s*$", out.splitlines()[-1] if out.strip() else "")
        if not found:
            raise SlurmRefused(f"sbatch: expected a job id, got {out.strip()!r}")
        return int(found[1])

    async def default_time_limit(self, partitions: str | None) -> int | None:
        """Return the shortest default time limit of the partitions, in seconds; None if unlimited."""
        return parse_default_time(await self.run("scontrol", "-o", "show", "partition"), partitions)

    async def jobs_by_script(self, live: bool = False) -> dict[Path, int]:
        """Return this user's jobs that slurmctld knows, by script. Of several jobs with one script, take the newest.

        With ``live``, return only those that have not ended.
        """
        ended = () if live else ("-t", "all")
        text = await self.run("squeue", "-h", *ended, "-u", str(os.getuid()), "-O", "JobID:24|,Command:4096")
        rows = (line.split("|", 1) for line in text.splitlines() if "|" in line)
        return {Path(script.strip()): number for number, script in sorted((int(job), script) for job, script in rows)}

    async def script_of(self, job_id: int) -> Path | None:
        """Return the script of a pending, running or recently ended job; None if slurmctld does not know the job."""
        answer = await self.ask("squeue", "-h", "-t", "all", "-j", str(job_id), "-O", "Command:4096")
        script = answer.out.strip()
        return Path(script) if not answer.code and script else None

    async def cancel(self, job_id: int, folder: Path | None = None, waiting_only: bool = False) -> None:
        """Cancel a job; ignore one that has ended already. Raises SlurmRefused for another user's job.

        With the ``folder`` of its script, skip another job that has the same id now. With ``waiting_only``, skip a
        job that has started.
        """
        if folder is not None and not executes(await self.script_of(job_id) or Path(), folder):
            return
        answer = await self.ask("scancel", *(["--state=PENDING"] if waiting_only else []), str(job_id))
        if answer.code and UNKNOWN_JOB not in answer.error:
            raise SlurmRefused(f"scancel {job_id}: {answer.error}")

    async def _finish(self, process: asyncio.subprocess.Process, name: str) -> Answer:
        try:
            out, error = await asyncio.wait_for(process.communicate(), self.timeout)
        except (TimeoutError, asyncio.CancelledError) as reason:
            if process.returncode is None:
                process.kill()
            await process.wait()
            if isinstance(reason, TimeoutError):
                raise SlurmUnavailable(f"{name}: no answer within {self.timeout:g} s") from None
            raise
        return Answer(process.returncode or 0, out.decode(errors="replace"), error.decode(errors="replace").strip())
