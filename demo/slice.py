"""The demo's metadata slice: four Parquet files with DataComp's columns, and the pins that describe them."""

import hashlib
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from demo.rows import Row, demo_rows
from tasks.io.files import atomic_file, digest, sha256_of

NAME = "quickstart"
REPO_ID = "demo/datacomp_small_web"
SCHEMA = pa.schema(
    {
        "uid": pa.string(),
        "url": pa.string(),
        "text": pa.string(),
        "original_width": pa.int64(),
        "original_height": pa.int64(),
        "clip_b32_similarity_score": pa.float64(),
        "clip_l14_similarity_score": pa.float64(),
        "face_bboxes": pa.list_(pa.list_(pa.float64())),
        "sha256": pa.string(),
    }
)
"""Columns and types of mlfoundations/datacomp_1b."""


class DemoFile(BaseModel):
    """One Parquet file of the slice: name, rows, size in bytes, SHA-256 in hex."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    rows: int
    bytes: int
    sha256: str


class DemoSlice(BaseModel):
    """A pinned slice: repository, commit (40 hex digits) and files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repo_id: str
    revision: str
    files: tuple[DemoFile, ...]

    def is_complete_in(self, folder: Path) -> bool:
        """Return whether ``folder`` holds every file, byte for byte."""
        return all(_matches_file(folder / file.name, file) for file in self.files)


def write_slice(folder: Path, base_url: str) -> DemoSlice:
    """Write the Parquet files for a web at ``base_url`` into ``folder``: the same bytes for the same base URL."""
    files = tuple(_write_file(folder, number, rows, base_url) for number, rows in enumerate(demo_rows()))
    return DemoSlice(repo_id=REPO_ID, revision=digest([file.sha256 for file in files])[:40], files=files)


def slice_yaml(demo: DemoSlice) -> dict[str, Any]:
    """Return the content of the slice file: pins, and settings for 2,000 attempts on two cores."""
    return {
        "name": NAME,
        "repo_id": demo.repo_id,
        "revision": demo.revision,
        "downloader": "current",
        "files": [file.model_dump() for file in demo.files],
        "download": {
            "processes_count": 2,
            "thread_count": 8,
            "timeout": 3,
            "retries": 1,
            "number_sample_per_shard": 100,
            "response_timeout": 20,
            "expected_success_rate": 0.75,
            "accepted_findings": ["host_loopback"],
            "allow_private_hosts": True,
        },
        "gate": {"minimum_successes": 1400},
        "convert": {"max_samples_per_tar": 250, "validation_fraction": 0.05, "minimum_train_samples": 1200},
    }


def _write_file(folder: Path, number: int, rows: list[Row], base_url: str) -> DemoFile:
    path = folder / f"{_hex(f'metadata file {number}', 32)}.parquet"
    with atomic_file(path) as file:
        pq.write_table(_table(rows, base_url), file)
    return DemoFile(name=path.name, rows=len(rows), bytes=path.stat().st_size, sha256=sha256_of(path))


def _table(rows: list[Row], base_url: str) -> pa.Table:
    return pa.Table.from_pylist([_record(row, row.url(base_url)) for row in rows], schema=SCHEMA)


def _record(row: Row, url: str) -> dict[str, Any]:
    """Return a row with DataComp's columns. Scores and hash are made up; the pipeline does not use them."""
    dice = random.Random(row.uid)
    return {
        "uid": row.uid,
        "url": url,
        "text": row.text,
        "original_width": row.size[0],
        "original_height": row.size[1],
        "clip_b32_similarity_score": round(dice.uniform(0.15, 0.45), 6),
        "clip_l14_similarity_score": round(dice.uniform(0.15, 0.45), 6),
        "face_bboxes": [list(box) for box in row.faces],
        "sha256": _hex(row.path, 64),
    }


def _hex(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _matches_file(path: Path, file: DemoFile) -> bool:
    return path.is_file() and path.stat().st_size == file.bytes and sha256_of(path) == file.sha256
