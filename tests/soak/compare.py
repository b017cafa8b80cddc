"""Compare two datasets, and check that every sample is accounted for once."""

import json
import sqlite3
import tarfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet

from tests.tasks.raw_shards import files_under

# Files with times and hosts, Prefect's pointers to receipts, and random output of Energon.
NOT_COMPARED = (
    "fingerprints/",
    "results/",
    "timings.jsonl",
    "dask-report.html",
    "energon.log",
    "index.uuid",
    ".sqlite",
)


def differences(folder: Path, expected: Path) -> list[str]:
    """Return the names of files whose bytes, or SQLite content, differ from the undisturbed run."""
    ours, theirs = (files_under(place, but=NOT_COMPARED) for place in (folder, expected))
    ours |= _databases(folder)
    theirs |= _databases(expected)
    return sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))


def lost_and_doubled(dataset: Path) -> tuple[int, int]:
    """Count the samples that are neither written nor rejected, and those that are written twice."""
    written: Counter[str] = Counter()
    for path in dataset.glob("*.tar"):
        with tarfile.open(path) as tar:
            written.update(name.partition(".")[0] for name in tar.getnames() if name.endswith(".image.jpg"))
    rejected = pyarrow.parquet.read_table(dataset / ".prepare" / "rejects.parquet").num_rows
    read = json.loads((dataset / "manifest.json").read_bytes())["counts"]["input_samples"]
    return read - sum(written.values()) - rejected, sum(count - 1 for count in written.values())


def _databases(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): _dump(path) for path in folder.rglob("*.sqlite")}


def _dump(path: Path) -> bytes:
    with sqlite3.connect(path) as database:
        return "\n".join(sorted(database.iterdump())).encode()  # Energon's workers insert rows in any order
