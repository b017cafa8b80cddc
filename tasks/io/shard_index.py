"""The shard index: the position of every sample in a raw tar, stored so that headers are parsed once.

It is a cache, keyed by the tar's content, and not a check: tars with troubles get an index too.
Each tar has one Parquet file with one row per group: key, offset of the first header, and (extension, offset, size)
of each member, all in bytes. The schema's metadata hold the tar's fingerprint, troubles and archive end.
"""

import hashlib
import itertools
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.io.files import atomic_file, canonical_json
from tasks.io.fingerprints import Fingerprint, Fingerprints
from tasks.io.raw_tar import Group, Member, TarContents, Trouble, read_tar

INDEX_VERSION = 4
_HEADER = b"shard-index"
_MEMBER = pa.struct([("extension", pa.binary()), ("offset", pa.int64()), ("size", pa.int64())])
_SCHEMA = pa.schema([("key", pa.binary()), ("offset", pa.int64()), ("members", pa.list_(_MEMBER))])


class ShardIndexes:
    """Indexes of the raw tars of one folder.

    Looks in ``shared`` first (the audit's folder, possibly read-only), and writes missing indexes to ``own``.
    ``trust``: use the hashes that are noted in ``shared``. ``fingerprints``: use these instead of those in ``own``.
    """

    def __init__(
        self, own: Path, shared: Path | None = None, trust: bool = True, fingerprints: Fingerprints | None = None
    ) -> None:
        self.own = own
        self.shared = shared
        self.trust = trust
        self.fingerprints = fingerprints or Fingerprints(own / "fingerprints")

    def fingerprint(self, tar: Path) -> Fingerprint:
        """Return the tar's fingerprint. Hash the tar if it is new or changed. Raises OSError."""
        if self.shared and self.trust:
            noted = Fingerprints(self.shared / "fingerprints").noted(tar)
            if noted:
                return noted
        return self.fingerprints.of(tar)

    def contents(self, tar: Path) -> TarContents:
        """Return the tar's contents from its index. Write the index if it is missing or stale. Raises OSError."""
        fingerprint = self.fingerprint(tar)
        for folder in filter(None, (self.shared, self.own)):
            contents = read_index(index_path(folder, tar), fingerprint)
            if contents is not None:
                return contents
        contents = read_tar(tar)
        write_index(index_path(self.own, tar), contents, fingerprint)
        return contents


def index_path(folder: Path, tar: Path) -> Path:
    """Return the path of the index of ``tar`` in ``folder``."""
    return folder / f"{tar.stem}.index.parquet"


def write_index(path: Path, contents: TarContents, fingerprint: Fingerprint) -> None:
    """Write a tar's index atomically."""
    header = {
        "version": INDEX_VERSION,
        "tar": fingerprint.model_dump(),
        "troubles": [asdict(trouble) for trouble in contents.troubles],
        "end": contents.end,
        "other_members": contents.other_members,
    }
    flat = _flatten(contents.groups)
    sealed = canonical_json(header | {"seal": _seal(header, flat)})
    table = _table(flat).replace_schema_metadata({_HEADER: sealed})
    with atomic_file(path) as file:
        pq.write_table(table, file, write_page_checksum=True)


def read_index(path: Path, fingerprint: Fingerprint) -> TarContents | None:
    """Return a tar's index, or None if it is missing, corrupt, or from another tar or version."""
    try:
        table = pq.read_table(path, page_checksum_verification=True, partitioning=None)
        header = json.loads(table.schema.metadata[_HEADER])
        if header["version"] != INDEX_VERSION or header["tar"] != fingerprint.model_dump():
            return None
        return _contents(table, header)
    except Exception:  # Arrow may raise anything for a corrupt file; the index is a cache and is rebuilt
        return None


def read_index_table(path: Path, fingerprint: Fingerprint) -> pa.Table | None:
    """Return the index on disk without checking its seal: fast, and safe for showing samples, not for copying them."""
    try:
        table = pq.read_table(path, partitioning=None)
        header = json.loads(table.schema.metadata[_HEADER])
    except Exception:  # Arrow may raise anything for a corrupt file
        return None
    same = header.get("version") == INDEX_VERSION and header.get("tar") == fingerprint.model_dump()
    return table if same else None


@dataclass(frozen=True)
class _Flat:
    """The groups as columns: one value per group (keys to counts), then one per member of all groups."""

    keys: list[bytes]
    offsets: list[int]
    counts: list[int]
    extensions: list[bytes]
    member_offsets: list[int]
    sizes: list[int]


def _flatten(groups: tuple[Group, ...]) -> _Flat:
    members = [member for group in groups for member in group.members]
    return _Flat(
        [_encode(group.key) for group in groups],
        [group.offset for group in groups],
        [len(group.members) for group in groups],
        [_encode(member.extension) for member in members],
        [member.offset for member in members],
        [member.size for member in members],
    )


def _table(flat: _Flat) -> pa.Table:
    members = pa.StructArray.from_arrays(
        [
            pa.array(flat.extensions, pa.binary()),
            pa.array(flat.member_offsets, pa.int64()),
            pa.array(flat.sizes, pa.int64()),
        ],
        fields=list(_MEMBER),
    )
    starts = pa.array([0, *itertools.accumulate(flat.counts)], pa.int32())
    lists = pa.ListArray.from_arrays(starts, members)
    return pa.table([pa.array(flat.keys, pa.binary()), pa.array(flat.offsets, pa.int64()), lists], schema=_SCHEMA)


def _contents(table: pa.Table, header: dict[str, Any]) -> TarContents:
    flat = _columns(table)
    seal = header.pop("seal")
    if seal != _seal(header, flat):
        raise ValueError("the index is damaged")
    troubles = tuple(Trouble(**trouble) for trouble in header["troubles"])
    return TarContents(_groups(flat), troubles, header["end"], tuple(header["other_members"]))


def _columns(table: pa.Table) -> _Flat:
    lists = table.column("members").combine_chunks()
    extensions, offsets, sizes = lists.flatten().flatten()
    return _Flat(
        table.column("key").to_pylist(),
        table.column("offset").to_pylist(),
        lists.value_lengths().to_pylist(),
        extensions.to_pylist(),
        offsets.to_pylist(),
        sizes.to_pylist(),
    )


def _groups(flat: _Flat) -> tuple[Group, ...]:
    members = map(Member, map(_decode, flat.extensions), flat.member_offsets, flat.sizes)
    return tuple(
        Group(_decode(key), offset, tuple(itertools.islice(members, count)))
        for key, offset, count in zip(flat.keys, flat.offsets, flat.counts, strict=True)
    )


def _seal(header: dict[str, Any], flat: _Flat) -> str:
    """Return the SHA-256 of the index's contents: Parquet's own checksums do not cover the footer."""
    return hashlib.sha256(canonical_json(header) + repr(flat).encode()).hexdigest()


def _encode(name: str) -> bytes:
    """Encode a tar member's name. Names in a tar are bytes; bytes that are not valid UTF-8 are read as surrogates."""
    return name.encode("utf-8", "surrogateescape")


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
