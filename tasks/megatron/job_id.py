"""Which Slurm job a launcher submitted: from what it says, else from what NeMo-Run noted.

Bridge's launchers submit through NeMo-Run. Its summary names the job, but asks sacct first, and on a cluster without
accounting it fails there, after submitting. By then it has noted the job in ``.slurm_jobs`` of its home.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SAID = re.compile(r"(?:^\s*-?\s*Job id:|Submitted batch job)\s+(\d+)\b", re.MULTILINE | re.IGNORECASE)
_NOTED = re.compile(r"^(\d+) = ", re.MULTILINE)


def said(log: Path) -> int | None:
    """The job that the launcher's output names; None if it names none, or there is none."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    found = _SAID.search(_ESCAPES.sub("", text))
    return int(found[1]) if found else None


@dataclass(frozen=True)
class Notes:
    """NeMo-Run's notes, and how long they were before the launch."""

    path: Path
    size: int

    def new_jobs(self) -> list[int]:
        """Jobs noted since."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.size)
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return []
        return [int(number) for number in _NOTED.findall(text)]


def notes_now() -> Notes:
    """The notes as they are before a launch."""
    home = os.environ.get("NEMORUN_HOME") or str(Path("~/.nemo_run").expanduser())
    path = Path(home) / ".slurm_jobs"
    return Notes(path, path.stat().st_size if path.exists() else 0)
