"""Job id of the job that a launcher submitted: from its output, else from NeMo-Run's notes.

Bridge's launchers submit through NeMo-Run. Its summary contains the job id, but calls sacct first: on a cluster
without accounting it fails there, after submitting. It has already recorded the job in ``.slurm_jobs`` of its home.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SAID = re.compile(r"(?:^\s*-?\s*Job id:|Submitted batch job)\s+(\d+)\b", re.MULTILINE | re.IGNORECASE)
_NOTED = re.compile(r"^(\d+) = ", re.MULTILINE)


def said(log: Path) -> int | None:
    """Return the job id in the launcher's output, or None if it contains none or the log is missing."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    found = _SAID.search(_ESCAPES.sub("", text))
    return int(found[1]) if found else None


@dataclass(frozen=True)
class Notes:
    """NeMo-Run's list of submitted jobs, and its size in bytes before the launch."""

    path: Path
    size: int

    def new_jobs(self) -> list[int]:
        """Return the jobs recorded since the launch."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.size)
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return []
        return [int(number) for number in _NOTED.findall(text)]


def notes_now() -> Notes:
    """Return path and current size of the notes, before a launch."""
    home = os.environ.get("NEMORUN_HOME") or str(Path("~/.nemo_run").expanduser())
    path = Path(home) / ".slurm_jobs"
    return Notes(path, path.stat().st_size if path.exists() else 0)
