"""Scan one raw shard: everything that depends on a sample alone, as a compact table."""

import hashlib
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.convert.models import ScanJob, ScanSummary
from tasks.convert.sample import Verdict, judge, judge_members, split_hash
from tasks.errors import TransientError
from tasks.files import atomic_file, readable_text
from tasks.raw_tar import SAMPLE_MEMBERS, Group, TarContents, read_ranges

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("uid", pa.string()),
        ("before_uid", pa.string()),
        ("after_uid", pa.string()),
        ("cause", pa.string()),
        ("caption_characters", pa.int64()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("split_hash", pa.uint64()),
        *[(f"{name}_{part}", pa.int64()) for name in SAMPLE_MEMBERS for part in ("offset", "size")],
        ("digest", pa.binary(32)),
    ]
)
"""One row a sample in member order. Offsets and sizes in bytes; ``digest``: SHA-256 over JPG, JSON and TXT."""


def scan_shard(job: ScanJob) -> ScanSummary:
    """Scan a shard, write its table and its receipt. Work that a valid receipt tells of is not done again.

    A tar that cannot be read to its end is scanned up to there; the summary tells of it. Raises OSError,
    and TransientError if the tar changed meanwhile.
    """
    done = job.finished()
    if done is not None:
        return done
    work = job.receipt()
    contents = job.indexes().contents(job.tar)
    with job.tar.open("rb") as file:
        rows = [_row(file, group) for group in contents.groups]
    _write_table(job.table_path, rows)
    summary = _summary(job, contents, rows)
    receipt = job.receipt(summary)
    if not receipt.is_for(work):
        raise TransientError(f"{job.tar.name} changed while it was scanned; is its download still running?")
    receipt.write(job.receipt_path)
    return summary


def _row(file: BinaryIO, group: Group) -> dict[str, Any]:
    members = {member.extension: member for member in group.members}
    verdict = judge_members(set(members))
    row: dict[str, Any] = {"key": group.key.encode("utf-8", "surrogateescape")}
    if verdict is None:
        jpg, json_bytes, txt = read_ranges(
            file, [(members[name].offset, members[name].size) for name in SAMPLE_MEMBERS]
        )
        verdict = judge(group.key, jpg, json_bytes, txt)
        row["digest"] = sample_digest(jpg, json_bytes, txt)
        row |= {f"{name}_offset": members[name].offset for name in SAMPLE_MEMBERS}
        row |= {f"{name}_size": members[name].size for name in SAMPLE_MEMBERS}
    if verdict.uid is not None:
        row["split_hash"] = split_hash(verdict.uid)
    return row | _readable(verdict)


def _readable(verdict: Verdict) -> dict[str, Any]:
    values = dict(vars(verdict))
    if verdict.cause is not None:
        values["cause"] = readable_text(verdict.cause)
    return values


def sample_digest(jpg: bytes, json_bytes: bytes, txt: bytes) -> bytes:
    """SHA-256 over a sample's bytes: the write step holds it against what it copies."""
    digest = hashlib.sha256(jpg)
    digest.update(json_bytes)
    digest.update(txt)
    return digest.digest()


def _write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    table = pa.table({name: [row.get(name) for row in rows] for name in SCHEMA.names}, schema=SCHEMA)
    with atomic_file(path) as file:
        pq.write_table(table, file)


def _summary(job: ScanJob, contents: TarContents, rows: list[dict[str, Any]]) -> ScanSummary:
    trouble = contents.troubles[0] if contents.troubles else None
    usable = sum(1 for row in rows if not row["before_uid"] and not row["after_uid"])
    what = (
        f"{job.tar.name}: {trouble.member or 'the archive'} (byte {trouble.offset}) {trouble.message}"
        if trouble
        else None
    )
    return ScanSummary(
        shard=job.tar.name,
        samples=len(rows),
        usable=usable,
        trouble=what,
        samples_before_trouble=trouble.groups_before if trouble else None,
    )


def read_scan(job: ScanJob) -> pa.Table:
    """The table of a scanned shard."""
    return pq.read_table(job.table_path, schema=SCHEMA, partitioning=None)
