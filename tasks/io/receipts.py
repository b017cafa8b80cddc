"""Receipts: inputs and outputs of a finished piece of work. Resume, caching and status rely on them."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.io.files import canonical_json, write_json
from tasks.io.fingerprints import Fingerprint, Fingerprints

SCHEMA_VERSION = 1

Model = TypeVar("Model", bound=BaseModel)


class Receipt(BaseModel):
    """One finished piece of work, without time, host, process or folder: equal work has equal bytes.

    ``inputs`` and ``settings`` are JSON values that identify the work. ``outputs`` are the files it wrote (names
    relative to the stage's output folder). ``counts`` are the numbers it counted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    stage: str
    stage_version: int
    inputs: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    outputs: list[Fingerprint] = []
    counts: dict[str, Any] = {}

    def write(self, path: Path) -> None:
        """Write the receipt atomically. This must be the last step of the work."""
        write_json(path, self.model_dump(mode="json"))

    def is_for(self, work: "Receipt") -> bool:
        """Return whether this receipt is for the same work: equal stage, version, inputs and settings."""
        return _identity(self) == _identity(work)

    def counts_as(self, model: type[Model]) -> Model | None:
        """Return the counts as a value of ``model``, or None if they do not validate."""
        try:
            return model.model_validate(self.counts)
        except ValidationError:
            return None

    def outputs_intact(self, folder: Path, fingerprints: Fingerprints) -> bool:
        """Return whether every output is still in ``folder`` and unchanged."""
        return all(fingerprints.matches(folder / output.name, output) for output in self.outputs)


def _identity(receipt: Receipt) -> bytes:
    fields = receipt.model_dump(mode="json", include={"schema_version", "stage", "stage_version", "inputs", "settings"})
    return canonical_json(fields)


def read_receipt(path: Path) -> Receipt | None:
    """Return the receipt at ``path``, or None if it is missing or invalid."""
    try:
        return Receipt.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None


def note_timing(folder: Path, name: str, seconds: float, counts: Mapping[str, Any]) -> None:
    """Append a line to ``timings.jsonl``. Times are not part of receipts, so that equal work has equal receipts."""
    folder.mkdir(parents=True, exist_ok=True)
    line = canonical_json({"name": name, "seconds": round(seconds, 3), "ended": round(time.time(), 1), **counts})
    with (folder / "timings.jsonl").open("ab") as file:
        file.write(line + b"\n")


@contextlib.contextmanager
def timed(folder: Path, name: str) -> Iterator[None]:
    """Write the block's duration to ``timings.jsonl`` if it ends without an error."""
    started = time.monotonic()
    yield
    note_timing(folder, name, time.monotonic() - started, {})
