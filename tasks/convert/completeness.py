"""Completeness check of a readable raw tar: whether it holds every sample that its writer put there."""

import json
import tarfile
from pathlib import Path

from tasks.io.raw_tar import ArchiveEnd, TarContents

_ENDS: dict[ArchiveEnd, str] = {
    "missing": "ends without an end of archive: its writer was interrupted, or it was cut",
    "trailing data": "holds data after its end of archive, which no reader will see",
}


def find_gap(contents: TarContents, successes: int | None) -> tuple[str, int] | None:
    """Return why samples may be missing and the byte offset where they would be, or None if nothing indicates a gap.

    ``successes`` comes from the stats file beside the tar; None if it is unknown. A sample that lacks a member counts
    as present: it is rejected with a reason, not lost.
    """
    found = _ENDS.get(contents.end)
    if found is None and successes is not None and len(contents.groups) < successes:
        found = f"holds {len(contents.groups)} samples, but the stats beside it count {successes} successes"
    return (found, _end_of_members(contents)) if found else None


def read_successes(stats: Path) -> int | None:
    """Return the number of successes in a shard's stats file, or None if the file or the number is missing.

    Invalid stats are ignored here; the audit reports them.
    """
    try:
        successes = json.loads(stats.read_bytes())["successes"]
    except (FileNotFoundError, ValueError, RecursionError, LookupError, TypeError):
        return None
    return successes if type(successes) is int else None


def _end_of_members(contents: TarContents) -> int:
    """Return the byte after the last member of a sample, padding included."""
    ends = [member.offset + member.size for group in contents.groups[-1:] for member in group.members]
    return -(-max(ends, default=0) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
