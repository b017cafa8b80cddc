"""One poller for all jobs of a worker: one squeue call per poll, and an interval that grows while nothing changes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from logging import Logger, LoggerAdapter
from pathlib import Path

from deployments.slurm.verdict import LOST
from tasks.slurm.client import NO_ACCOUNTING, UNKNOWN_JOB, Slurm, SlurmUnavailable
from tasks.slurm.job_folder import executes
from tasks.slurm.reports import (
    ACCOUNTING_FIELDS,
    ENDING,
    QUEUE_FIELDS,
    JobReport,
    joined,
    parse_sacct,
    parse_scontrol,
    parse_squeue,
)

Changed = Callable[[JobReport], Awaitable[None]]
_GROWTH = 1.5
# A job that Slurm requeues is briefly in one of these states before it is PENDING again. Whether Slurm requeues depends
# on site, partition and --requeue, so only a job that stays in such a state has ended.
_PASSING = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL"})
_ASK_ACCOUNTING = frozenset({"CANCELLED", "OUT_OF_MEMORY"})


@dataclass(frozen=True)
class Pace:
    """Shortest and longest poll interval in seconds, and the number of polls after which a missing job is lost."""

    shortest: float = 2
    longest: float = 30
    lost_after: int = 3


@dataclass
class _Entry:
    job_id: int
    folder: Path | None
    changed: Changed
    ended: asyncio.Future[JobReport] = field(default_factory=asyncio.Future)
    last: JobReport | None = None
    missing: int = 0
    lingering: int = 0  # polls in a row in a temporary state

    def is_of(self, report: JobReport) -> bool:
        """Return whether a report with the job's id is about this job.

        A controller that lost its latest state assigns ids again, so another job may have the id. The script
        identifies the job. Only reports from accounting lack it.
        """
        return self.folder is None or not report.script or executes(Path(report.script), self.folder)


class Poller:
    """A poller that watches jobs until they end. A job does not count as ended while Slurm does not answer."""

    def __init__(self, slurm: Slurm, pace: Pace, logger: Logger | LoggerAdapter[Logger]) -> None:
        self._slurm, self._pace, self._logger = slurm, pace, logger
        self._jobs: dict[tuple[int, Path | None], _Entry] = {}
        self._interval = pace.shortest
        self._news = asyncio.Event()
        self._accounting = True
        self._silent = False

    async def watch(self, job_id: int, folder: Path | None, changed: Changed) -> JobReport:
        """Wait until the job has ended and return its last report. Await ``changed`` at each new state or reason.

        ``folder`` contains the job's script, which distinguishes the job from another one with the same id.
        """
        entry = self._jobs.setdefault((job_id, folder), _Entry(job_id, folder, changed))
        self.hurry()
        try:
            return await asyncio.shield(entry.ended)
        finally:
            self._jobs.pop((job_id, folder), None)

    def hurry(self) -> None:
        """Poll again soon, because something is about to change."""
        self._interval = self._pace.shortest
        self._news.set()

    def last_report(self, job_id: int, folder: Path | None) -> JobReport | None:
        """Return the latest report of a watched job, or None."""
        entry = self._jobs.get((job_id, folder))
        return entry.last if entry else None

    async def poll(self) -> None:
        """Query Slurm once about all watched jobs and report changes."""
        waiting = [entry for entry in self._jobs.values() if not entry.ended.done()]
        if not waiting:
            return
        try:
            reports = await self._observe(waiting)
        except SlurmUnavailable as error:
            if not self._silent:
                self._logger.warning("Slurm does not answer; jobs are taken to be as they were. %s", error)
            self._silent = True
            return
        if self._silent:
            self._logger.info("Slurm answers again.")
        self._silent = False
        for entry in waiting:
            report = reports.get(entry.job_id)
            await self._take(entry, report if report and entry.is_of(report) else None)

    async def pause(self) -> None:
        """Wait for the next poll. The wait grows each time, and is short again after a job was added or changed."""
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), self._interval)
            # Wait for a burst of submissions to finish, so that one command covers all of them.
            await asyncio.sleep(self._pace.shortest)
        except TimeoutError:
            self._interval = min(self._interval * _GROWTH, self._pace.longest)

    async def _observe(self, waiting: list[_Entry]) -> dict[int, JobReport]:
        ids = {entry.job_id for entry in waiting}
        lingering = {entry.job_id for entry in waiting if entry.lingering >= self._pace.lost_after}
        answer = await self._slurm.ask("squeue", "-h", "-t", "all", "-j", joined(ids), "-O", QUEUE_FIELDS)
        if answer.code and UNKNOWN_JOB not in answer.error:
            raise SlurmUnavailable(f"squeue: {answer.error}")
        reports = parse_squeue(answer.out)
        for job_id, report in reports.items():
            if report.state == ENDING and job_id in lingering:
                reports[job_id] = await self._behind_completing(report)
        ask = (ids - reports.keys()) | {i for i, report in reports.items() if report.state in _ASK_ACCOUNTING}
        return reports | self._merged(reports, await self._account(ask))

    async def _behind_completing(self, report: JobReport) -> JobReport:
        # A node that does not respond keeps its jobs COMPLETING for hours; scontrol shows their final state.
        answer = await self._slurm.ask("scontrol", "-o", "show", "job", str(report.job_id))
        return replace(parse_scontrol(answer.out) or report, script=report.script)

    async def _account(self, ids: Iterable[int]) -> dict[int, JobReport]:
        wanted = joined(ids)
        if not wanted or not self._accounting:
            return {}
        try:
            answer = await self._slurm.ask("sacct", "-n", "-P", "-j", wanted, "-o", ACCOUNTING_FIELDS)
        except SlurmUnavailable as error:
            self._logger.debug("no accounting: %s", error)
            return {}
        self._accounting = NO_ACCOUNTING not in answer.error
        return {} if answer.code else parse_sacct(answer.out)

    @staticmethod
    def _merged(reports: dict[int, JobReport], accounts: dict[int, JobReport]) -> dict[int, JobReport]:
        """Return accounting's reports of jobs missing in squeue, and squeue's others with fields from accounting."""
        merged = {}
        for job_id, account in accounts.items():
            seen = reports.get(job_id)
            merged[job_id] = account
            if seen is not None:
                more = account.cancelled_by, account.memory_used
                merged[job_id] = replace(seen, cancelled_by=more[0], memory_used=more[1])
        return merged

    async def _take(self, entry: _Entry, report: JobReport | None) -> None:
        if report is None:
            entry.missing += 1
            if entry.missing >= self._pace.lost_after:
                self._end(entry, replace(entry.last or JobReport(entry.job_id, LOST), state=LOST, reason=""))
            return
        entry.missing = 0
        passing = report.state == ENDING or report.state in _PASSING
        entry.lingering = entry.lingering + 1 if passing else 0
        if report.ended and (not passing or entry.lingering >= self._pace.lost_after):
            self._end(entry, report)
        elif not passing:
            await self._tell(entry, report)

    def _end(self, entry: _Entry, report: JobReport) -> None:
        entry.last = report
        if not entry.ended.done():
            entry.ended.set_result(report)

    async def _tell(self, entry: _Entry, report: JobReport) -> None:
        before, entry.last = entry.last, report
        if before is None or _news(before) != _news(report):
            self.hurry()
            await entry.changed(report)


def _news(report: JobReport) -> tuple[str, str, str, int]:
    return report.state, report.reason, report.nodes, report.restarts
