"""Whether two datasets are the same, and whether every sample is accounted for once."""

import json
import sqlite3
import tarfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet

from tests.tasks.raw_shards import files_under

# Notes of times and hosts, Prefect's pointers at receipts, and what Energon makes random.
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
    """Names of files whose bytes, or SQLite content, are not those of the undisturbed run."""
    ours, theirs = (files_under(place, but=NOT_COMPARED) for place in (folder, expected))
    ours |= _databases(folder)
    theirs |= _databases(expected)
    return sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))


def lost_and_doubled(dataset: Path) -> tuple[int, int]:
    """Samples that are neither written nor rejected, and those that are written twice."""
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
