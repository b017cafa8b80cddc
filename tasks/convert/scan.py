"""The scan of one raw shard: a compact table of everything that depends on a single sample."""

import hashlib
import io
import itertools
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from tasks.contracts.errors import TransientError
from tasks.convert.completeness import find_gap, read_successes
from tasks.convert.models import ScanJob, ScanSummary
from tasks.convert.sample import Verdict, judge, judge_members, judge_sizes, split_hash
from tasks.io.byte_ranges import Content, pieces_of, read_sample
from tasks.io.files import shown_text, write_bytes
from tasks.io.raw_tar import SAMPLE_MEMBERS, Group, TarContents

_RANGE_COLUMNS = [f"{name}_{part}" for name in SAMPLE_MEMBERS for part in ("offset", "size")]

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        # The fields of Verdict, in its order.
        ("uid", pa.string()),
        ("before_uid", pa.string()),
        ("after_uid", pa.string()),
        ("cause", pa.string()),
        ("caption_characters", pa.int64()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("chat_marker", pa.bool_()),
        ("not_finite", pa.bool_()),
        ("split_hash", pa.uint64()),
        *[(name, pa.int64()) for name in _RANGE_COLUMNS],
        ("digest", pa.binary(16)),
    ]
)
"""One row per sample in member order. Offsets and sizes in bytes; ``digest``: see :func:`sample_digest`."""

_COLUMNS = SCHEMA.names
_NO_RANGES = (None,) * len(_RANGE_COLUMNS)


def scan_shard(job: ScanJob) -> ScanSummary:
    """Scan a shard and write its table and receipt, unless a valid receipt exists.

    A tar that cannot be read to its end is scanned up to that place, which the summary reports. Raises OSError, and
    TransientError if the tar changed during the scan.
    """
    done = job.finished()
    if done is not None:
        return done
    work = job.receipt()
    contents = job.indexes().contents(job.tar)
    with job.tar.open("rb") as file:
        table = _table([_row(file, group) for group in contents.groups])
    _write(job, table)
    summary = _summary(job, contents, table)
    receipt = job.receipt(summary)
    if not receipt.is_for(work):
        raise TransientError(f"{job.tar.name} changed while it was scanned; is its download still running?")
    receipt.write(job.receipt_path)
    return summary


def _row(file: BinaryIO, group: Group) -> tuple[Any, ...]:
    """Return the sample's values in the order of SCHEMA.

    A tuple rather than a dict: Python's garbage collector would traverse dicts repeatedly.
    """
    key = group.key.encode("utf-8", "surrogateescape")
    members = {extension: (offset, size) for extension, offset, size in group.members}
    verdict = judge_members(members.keys())
    if verdict is not None:
        return (key, *_readable(verdict), None, *_NO_RANGES, None)
    jpg, json_bytes, txt = ranges = [members[name] for name in SAMPLE_MEMBERS]
    verdict = judge_sizes(json_bytes[1], txt[1])
    if verdict is not None:
        return (key, *verdict, None, *jpg, *json_bytes, *txt, None)
    data = read_sample(file, ranges)
    verdict = _readable(judge(group.key, *data))
    split = None if verdict.uid is None else split_hash(verdict.uid)
    return (key, *verdict, split, *jpg, *json_bytes, *txt, sample_digest(*data))


def _readable(verdict: Verdict) -> Verdict:
    return verdict if verdict.cause is None else verdict._replace(cause=shown_text(verdict.cause))


def sample_digest(jpg: Content, json_bytes: bytes, txt: bytes) -> bytes:
    """Return the XXH3 (128 bit) of a sample's bytes, which the write step compares with what it copies.

    It detects bytes that changed since the scan, not forgery: the plan has the tar's SHA-256. A SHA-256 here would
    take as long as all other work on a sample except decoding.
    """
    digest = xxhash.xxh3_128()
    for piece in pieces_of(jpg):
        digest.update(piece)
    digest.update(json_bytes)
    digest.update(txt)
    return digest.digest()


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else itertools.repeat((), len(_COLUMNS))
    return pa.table(dict(zip(_COLUMNS, columns, strict=True)), schema=SCHEMA)


def _write(job: ScanJob, table: pa.Table) -> None:
    """Write the table and record its hash, since hashing so new a file later would first wait until it is older."""
    output = io.BytesIO()
    pq.write_table(table, output)
    write_bytes(job.table_path, output.getvalue())
    job.folder.fingerprints().remember(job.table_path, hashlib.sha256(output.getvalue()).hexdigest())


def _summary(job: ScanJob, contents: TarContents, table: pa.Table) -> ScanSummary:
    trouble = contents.troubles[0] if contents.troubles else None
    gap = find_gap(contents, read_successes(job.stats_file))
    usable = pc.sum(pc.and_(table["before_uid"].is_null(), table["after_uid"].is_null())).as_py() or 0
    what = (
        f"{job.tar.name}: {trouble.member or 'the archive'} (byte {trouble.offset}) {trouble.message}"
        if trouble
        else None
    )
    return ScanSummary(
        shard=job.tar.name,
        samples=table.num_rows,
        usable=usable,
        trouble=what,
        samples_before_trouble=trouble.groups_before if trouble else None,
        gap=f"{job.tar.name} {gap[0]} (byte {gap[1]})" if gap else None,
    )
