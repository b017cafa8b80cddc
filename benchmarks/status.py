"""Benchmark of status on a data root with many shards: ``python -m benchmarks.status --shards 140000``."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tasks.contracts.layout import DataRoot
from tasks.status.overview import read_status


def make_root(root: Path, shards: int) -> None:
    """Create empty files named like those of so many audited and scanned shards."""
    data = DataRoot(root)
    prepare = data.dataset() / ".prepare"
    for number in range(shards):
        name = f"{number:08d}"
        for folder, endings in (
            (data.shards, (".tar", ".parquet", "_stats.json")),
            (data.audit, (".json", ".index.parquet")),
            (prepare / "scan", (".json", ".parquet")),
        ):
            if number == 0:
                folder.mkdir(parents=True)
            for ending in endings:
                (folder / f"{name}{ending}").touch()
    (data.audit / "findings.json").write_text("[]")


def main(shards: int) -> None:
    """Create the data root, read its status, and print the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        make_root(Path(folder), shards)
        started = time.perf_counter()
        stages = {stage.stage: stage.done for stage in read_status(Path(folder), "energon").stages}
        seconds = time.perf_counter() - started
    sys.stdout.write(f"status of {shards:,} shards: {seconds:.1f} s (audited {stages['audit']:,})\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=140_000)
    main(parser.parse_args().shards)
