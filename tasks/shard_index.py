"""The shard index: where every sample of a raw tar lies, kept so that headers are parsed once.

A cache keyed by the tar's content, never a gate: it is also written for tars with troubles.
One Parquet file a tar, one row a group: key, offset of the first header, and (extension, offset, size) of
each member, offsets and sizes in bytes. The tar's fingerprint, troubles and archive end are in the schema's metadata.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.files import atomic_file, canonical_json
from tasks.fingerprints import Fingerprint, Fingerprints, Verify
from tasks.raw_tar import Group, Member, TarContents, Trouble, read_tar

INDEX_VERSION = 2
_HEADER = b"shard-index"
_MEMBER = pa.struct([("extension", pa.binary()), ("offset", pa.int64()), ("size", pa.int64())])
_SCHEMA = pa.schema([("key", pa.binary()), ("offset", pa.int64()), ("members", pa.list_(_MEMBER))])


class ShardIndexes:
    """Indexes of the raw tars of one folder.

    ``own`` is where missing indexes are written; ``shared`` (the audit's folder, possibly read-only) is
    looked into first. ``keep``: whether hashes of new or changed tars are noted in ``own``.
    """

    def __init__(self, own: Path, shared: Path | None = None, verify: Verify = "changed", keep: bool = True) -> None:
        self.own = own
        self.shared = shared
        self.fingerprints = Fingerprints(own / "fingerprints", verify, keep)

    def fingerprint(self, tar: Path) -> Fingerprint:
        """The tar's fingerprint; hashes the tar if it is new or changed. Raises OSError."""
        if self.shared and self.fingerprints.verify == "changed":
            noted = Fingerprints(self.shared / "fingerprints").noted(tar)
            if noted:
                return noted
        return self.fingerprints.of(tar)

    def contents(self, tar: Path) -> TarContents:
        """The tar's contents from its index, which is made if there is none for these bytes. Raises OSError."""
        fingerprint = self.fingerprint(tar)
        for folder in filter(None, (self.shared, self.own)):
            contents = read_index(index_path(folder, tar), fingerprint)
            if contents is not None:
                return contents
        contents = read_tar(tar)
        write_index(index_path(self.own, tar), contents, fingerprint)
        return contents


def index_path(folder: Path, tar: Path) -> Path:
    """Where the index of ``tar`` lies in ``folder``."""
    return folder / f"{tar.stem}.index.parquet"


def write_index(path: Path, contents: TarContents, fingerprint: Fingerprint) -> None:
    """Write a tar's index atomically."""
    table = pa.table(_columns(contents.groups), schema=_SCHEMA)
    header = {
        "version": INDEX_VERSION,
        "tar": fingerprint.model_dump(),
        "troubles": [asdict(trouble) for trouble in contents.troubles],
        "end": contents.end,
        "other_members": contents.other_members,
        "seal": _seal(contents),
    }
    table = table.replace_schema_metadata({_HEADER: canonical_json(header)})
    with atomic_file(path) as file:
        pq.write_table(table, file, write_page_checksum=True)


def read_index(path: Path, fingerprint: Fingerprint) -> TarContents | None:
    """A tar's index; None if there is none, or it is of another tar or version, or damaged."""
    try:
        table = pq.read_table(path, page_checksum_verification=True, partitioning=None)
        header = json.loads(table.schema.metadata[_HEADER])
        if header["version"] != INDEX_VERSION or header["tar"] != fingerprint.model_dump():
            return None
        return _contents(table, header)
    except Exception:  # a damaged file may make Arrow raise anything; the index is a cache, and is made anew
        return None


def _contents(table: pa.Table, header: dict[str, Any]) -> TarContents:
    contents = TarContents(
        _groups(table),
        tuple(Trouble(**trouble) for trouble in header["troubles"]),
        header["end"],
        tuple(header["other_members"]),
    )
    if header["seal"] != _seal(contents):
        raise ValueError("the index is damaged")
    return contents


def _seal(contents: TarContents) -> str:
    """SHA-256 over all that the index says: Parquet's own checksums leave its footer out."""
    return hashlib.sha256(repr(contents).encode()).hexdigest()


def _columns(groups: tuple[Group, ...]) -> dict[str, list[Any]]:
    return {
        "key": [_encode(group.key) for group in groups],
        "offset": [group.offset for group in groups],
        "members": [
            [{"extension": _encode(m.extension), "offset": m.offset, "size": m.size} for m in group.members]
            for group in groups
        ],
    }


def _groups(table: pa.Table) -> tuple[Group, ...]:
    keys, offsets, members = (table.column(name).to_pylist() for name in ("key", "offset", "members"))
    return tuple(
        Group(
            _decode(key),
            offset,
            tuple(Member(_decode(m["extension"]), m["offset"], m["size"]) for m in found),
        )
        for key, offset, found in zip(keys, offsets, members, strict=True)
    )


def _encode(name: str) -> bytes:
    """Names in a tar are bytes; those that are no UTF-8 come as surrogates."""
    return name.encode("utf-8", "surrogateescape")


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
