"""Job reports, parsed from the text output of squeue, scontrol and sacct.

The text formats are the same in 22.05 and 24.11 (the JSON formats are not), with one exception: squeue prints exit
codes as a wait status in 22.05 (768 is exit 3, 11 is signal 11), and as ``code:signal`` in 24.11, like scontrol and
sacct.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasks.slurm.job_folder import RECEIPT_FILE

QUEUE_FIELDS = (
    "JobID:24|,State:24|,exit_code:16|,DerivedEC:16|,RestartCnt:12|,TimeUsed:24|,TimeLimit:24|,MinMemory:24|,"
    "NodeList:400|,Reason:200|,Command:4096"
)
ACCOUNTING_FIELDS = "JobID,State,ExitCode,DerivedExitCode,Elapsed,Timelimit,ReqMem,MaxRSS,NodeList,Reason"

LIVE = frozenset(
    {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "REQUEUED"}
    | {"REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "COMPLETING"}
)
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD"})
# The job has ended, but its nodes are not free yet. The final state follows.
ENDING = "COMPLETING"


@dataclass(frozen=True)
class JobReport:
    """The state of a job at one moment. Times are in seconds; None means unknown or unlimited."""

    job_id: int
    state: str
    reason: str = ""
    nodes: str = ""
    exit_code: int = 0
    signal: int = 0
    step_signal: int = 0
    restarts: int = 0
    elapsed: int | None = None
    time_limit: int | None = None
    memory: str = ""
    memory_used: str = ""
    cancelled_by: str = ""
    script: str = ""

    @property
    def ended(self) -> bool:
        """True once the job has ended and its state will not change again."""
        return self.state not in LIVE

    @property
    def waiting(self) -> bool:
        """True while the job waits in the queue."""
        return self.state in WAITING


@dataclass(frozen=True)
class Receipt:
    """The exit receipt of the batch script: seconds since its start, exit code, and the signal that it got, if any.

    ``memory_peak`` is in bytes, 0 if unknown.
    """

    elapsed: int
    exit_code: int
    job_id: int
    node: str
    restarts: int
    signal: str
    memory_peak: int = 0


def parse_squeue(text: str) -> dict[int, JobReport]:
    """Return the reports in ``squeue -h -t all -O QUEUE_FIELDS``, by job id."""
    rows = ([cell.strip() for cell in line.split("|", 10)] for line in text.splitlines() if line.strip())
    return {report.job_id: report for report in map(_queue_row, rows)}


def parse_scontrol(text: str) -> JobReport | None:
    """Return the report in the single line of ``scontrol -o show job ID``, or None."""
    # The job's name comes first and may contain anything, so search for fields after it.
    start = text.find(" UserId=")
    # The comment may contain anything too. Of two fields with the same name, the first is Slurm's.
    job, fields = re.match(r"\s*JobId=(\d+)", text), dict(reversed(re.findall(r" (\S+?)=(\S*)", text[start:])))
    if job is None or start < 0:
        return None
    code, signal = _code_and_signal(fields.get("ExitCode", ""))
    return JobReport(
        job_id=int(job[1]),
        state=fields["JobState"],
        reason=_none_as_empty(fields.get("Reason", "")),
        nodes=_none_as_empty(fields.get("NodeList", "")),
        exit_code=code,
        signal=signal,
        restarts=int(fields.get("Restarts", "0")),
        elapsed=seconds(fields.get("RunTime", "")),
        time_limit=seconds(fields.get("TimeLimit", "")),
        memory=fields.get("MinMemoryNode") or fields.get("MinMemoryCPU", ""),
    )


def parse_sacct(text: str) -> dict[int, JobReport]:
    """Return the reports in ``sacct -n -P -o ACCOUNTING_FIELDS``, by job id. Used memory comes from the steps."""
    reports: dict[int, JobReport] = {}
    for row in (line.split("|") for line in text.splitlines() if line.count("|") >= 9):
        job, _, step = row[0].partition(".")
        if not job.isdigit():
            continue
        if not step:
            reports[int(job)] = _accounting_row(int(job), row)
        elif int(job) in reports:
            known = reports[int(job)]
            used = max(known.memory_used, row[7], key=_bytes)
            reports[int(job)] = replace(known, memory_used=used)
    return reports


def read_receipt(folder: Path) -> Receipt | None:
    """Return the exit receipt in a job's folder, or None if it is missing or invalid."""
    try:
        content: Any = json.loads((folder / RECEIPT_FILE).read_text(encoding="utf-8"))
        return Receipt(**content)
    except (OSError, ValueError, TypeError):
        return None


def parse_default_time(text: str, partitions: str | None) -> int | None:
    """Return the shortest default time in ``scontrol -o show partition``, in seconds; None if unlimited or unknown.

    ``partitions`` has the format of ``--partition``; None means the site's default partition.
    """
    lines = [line for line in text.splitlines() if line.startswith("PartitionName=")]
    rows = [dict(word.partition("=")[::2] for word in line.split()) for line in lines]
    names = partitions.split(",") if partitions else []
    wanted = [row for row in rows if (row["PartitionName"] in names if names else row["Default"] == "YES")]
    times = [row["MaxTime"] if row["DefaultTime"] == "NONE" else row["DefaultTime"] for row in wanted]
    return min((limit for time in times if (limit := seconds(time))), default=None)


def seconds(text: str) -> int | None:
    """Return the seconds of a time as Slurm prints it (``[D-]HH:MM:SS`` or ``MM:SS``), or None if it is not a time."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", text)
    if not found:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def joined(ids: Iterable[int]) -> str:
    """Return job ids in the format of Slurm's commands: sorted, separated by commas."""
    return ",".join(str(number) for number in sorted(ids))


def _queue_row(row: list[str]) -> JobReport:
    job, state, status, derived, restarts, used, limit, memory, nodes, reason, script = row
    code, signal = _status(status)
    return JobReport(
        job_id=int(job),
        state=state,
        reason=_none_as_empty(reason),
        nodes=_none_as_empty(nodes),
        exit_code=code,
        signal=signal,
        step_signal=_status(derived)[1],
        restarts=int(restarts) if restarts.isdigit() else 0,
        elapsed=seconds(used),
        time_limit=seconds(limit),
        memory=memory,
        script=script,
    )


def _accounting_row(job: int, row: list[str]) -> JobReport:
    state, _, who = row[1].partition(" by ")
    code, signal = _code_and_signal(row[2])
    return JobReport(
        job_id=job,
        state=state,
        reason=_none_as_empty(row[9]),
        nodes=_none_as_empty(row[8]),
        exit_code=code,
        signal=signal,
        step_signal=_code_and_signal(row[3])[1],
        elapsed=seconds(row[4]),
        time_limit=seconds(row[5]),
        memory=row[6],
        memory_used=row[7],
        cancelled_by=who,
    )


def _status(text: str) -> tuple[int, int]:
    return (int(text) >> 8, int(text) & 0x7F) if text.isdigit() else _code_and_signal(text)


def _code_and_signal(text: str) -> tuple[int, int]:
    code, _, signal = text.partition(":")
    return (int(code), int(signal)) if code.isdigit() and signal.isdigit() else (0, 0)


def _bytes(text: str) -> float:
    found = re.fullmatch(r"([\d.]+)([KMGT]?)", text)
    return float(found[1]) * 1024 ** " KMGT".index(found[2] or " ") if found else 0


def _none_as_empty(text: str) -> str:
    return "" if text in {"None", "(null)", "None assigned", "N/A", "n/a", "Unknown"} else text
