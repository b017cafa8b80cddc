"""Used in a test: mark work for a fault, and read which process did which work."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.faults.inject import WAYS

SITE = Path(__file__).parent / "site"


@dataclass(frozen=True)
class Faults:
    """A folder of marks, such as ``scan-00000002`` or ``scan``; each contains the way in which the work dies."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that inject the faults into a Python process."""
        return {"FAULTS": str(self.folder), "PYTHONPATH": f"{SITE}:{ROOT}"}

    def mark(self, work: str, way: str) -> None:
        """Let this piece of work, or a whole stage, die in the given way."""
        if way not in WAYS:
            raise ValueError(way)
        (self.folder / work).write_text(way, encoding="ascii")

    def heal(self, work: str) -> None:
        """Remove a fault."""
        (self.folder / work).unlink()

    def ran(self) -> list[tuple[str, str, int]]:
        """Return (work, node, process id) in the order in which work began."""
        path = self.folder / "ran"
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        return [(work, node, int(pid)) for work, node, pid in map(str.split, lines)]

    def times(self) -> Counter[str]:
        """Count how often each piece of work began."""
        return Counter(work for work, _, _ in self.ran())


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    """The marks of one test."""
    folder = tmp_path / "faults"
    folder.mkdir()
    return Faults(folder)


def processes_of(faults: Faults) -> list[int]:
    """Return the processes with this test's faults in their environment: the flow's own and its workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = path.read_bytes()
        except OSError:
            continue
        if f"FAULTS={faults.folder}".encode() in environment.split(b"\0"):
            found.append(int(path.parent.name))
    return found
