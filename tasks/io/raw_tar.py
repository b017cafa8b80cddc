"""Raw shards on disk: the order of the tars, and the samples in their headers."""

import os
import re
import struct
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal, NamedTuple

from tasks.contracts.errors import ShardError
from tasks.io.files import shown_text

_OCTAL = re.compile(rb"[0-7]{11}\0").fullmatch
_USTAR = struct.Struct("100s 24x 12s 12x 8s 1s 100x 5s 83x 155s 12x")
"""A header block (POSIX ustar): name, size, checksum (bytes 148 to 155), type, magic, prefix."""
_NO_PREFIX = bytes(155)

SAMPLE_MEMBERS = ("jpg", "json", "txt")
"""The extensions of the members of a complete raw sample."""

ArchiveEnd = Literal["complete", "missing", "trailing data"]

_UNREADABLE = (tarfile.TarError, ValueError, ArithmeticError, RecursionError, MemoryError)
"""Errors that tarfile raises at hostile headers, such as impossible sizes or endless extended headers."""


class Member(NamedTuple):
    """A regular file of a sample: extension after the last dot, and where its bytes lie in the tar."""

    extension: str
    offset: int
    size: int


class Group(NamedTuple):
    """Contiguous members of one key: a sample, if complete. ``offset`` is that of the first header."""

    key: str
    offset: int
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Trouble:
    """A place where a tar cannot be read as samples, and the number of complete groups before it."""

    message: str
    member: str | None
    offset: int
    groups_before: int


@dataclass(frozen=True)
class TarContents:
    """The contents of one raw tar according to its headers."""

    groups: tuple[Group, ...]
    troubles: tuple[Trouble, ...]
    end: ArchiveEnd
    other_members: tuple[str, ...]
    """Names of members that are not regular files. They are ignored."""


def list_raw_tars(folder: Path) -> list[Path]:
    """Return the raw tars of ``folder`` in lexical order of their names.

    Raises ShardError if the folder is missing or empty, if a tar is not a file (a folder, a broken link), or if names
    differ in length: lexical and numeric order would then differ, and the first samples would come from the wrong
    shards. Raises OSError if the folder cannot be read.
    """
    if not folder.is_dir():
        raise ShardError(f"{folder} is not a folder; name the folder that holds the raw shards (*.tar)")
    # A glob would take a folder that may not be read for an empty one.
    names = sorted(path.name for path in folder.iterdir())
    tars = [folder / name for name in names if name.endswith(".tar") and not name.startswith(".")]
    if not tars:
        raise ShardError(f"{folder} holds no *.tar; name the folder that holds the raw shards")
    no_file = next((p for p in tars if not p.is_file()), None)
    if no_file:
        raise ShardError(f"{no_file} is not a file; remove it, or restore what it stands for")
    odd = next((p.name for p in tars if len(p.name) != len(tars[0].name)), None)
    if odd:
        raise ShardError(
            f"{folder}: the names {tars[0].name} and {odd} differ in length, so that lexical and numeric order "
            "of the shards may differ; rename the shards to one length"
        )
    return tars


def hidden_tars(folder: Path) -> list[str]:
    """Return the names of the tars that :func:`list_raw_tars` ignores because they start with a dot."""
    return sorted(path.name for path in folder.glob(".*.tar"))


def read_tar(path: Path) -> TarContents:
    """Read all headers of a raw tar. Damage does not raise: it is in the result's ``troubles``.

    Raises OSError if the file cannot be read.
    """
    reader = _Reader()
    with path.open("rb") as file:
        end = reader.read(file)
    return TarContents(tuple(reader.groups), tuple(reader.troubles), end, tuple(reader.other_members))


class _Reader:
    """A collector of groups and troubles from a tar's headers."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.troubles: list[Trouble] = []
        self.other_members: list[str] = []
        self.open_key: str | None = None
        self.open_offset = 0
        self.open_members: list[Member] = []

    def read(self, file: BinaryIO) -> ArchiveEnd:
        """Read the archive up to its end or its first damage; return how it ends."""
        size = os.fstat(file.fileno()).st_size
        last: _Plain | tarfile.TarInfo | None = None
        offset = 0
        for last in _plain_members(file, size):
            self._take_file(last.name, last.offset, last.offset_data, last.size)
            offset = last.next_header
        # tarfile reads the rest, from the first header that is not plain up to the end of the archive.
        file.seek(offset)
        try:
            # Uncompressed only: the byte ranges of members are copied later.
            with tarfile.open(fileobj=file, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
                for last in tar:
                    self._take(last)
                    _refuse_cut_member(last, tar.offset, size)
                    tar.members = []  # type: ignore[attr-defined]  # tarfile would keep every header in memory
                offset = tar.offset
        except _UNREADABLE as error:
            self._damage(f"cannot be read as a tar: {error}", last)
            return "missing"
        return self._archive_end(file, offset, last)

    def _take(self, info: tarfile.TarInfo) -> None:
        if not info.isreg():
            self.other_members.append(info.name)
            return
        if info.issparse():
            self._trouble("is a sparse file, whose bytes do not lie in one piece", info.name, info.offset)
            return
        self._take_file(info.name, info.offset, info.offset_data, info.size)

    def _take_file(self, path: str, offset: int, offset_data: int, size: int) -> None:
        key, dot, extension = _base_name(path).rpartition(".")
        if not dot:
            self._trouble("has no extension", path, offset)
            return
        if key != self.open_key:
            self._close_group()
            self.open_key, self.open_offset = key, offset
        if extension in [member.extension for member in self.open_members]:
            self._trouble(f"comes twice in the sample {key!r}", path, offset)
            return
        self.open_members.append(Member(extension, offset_data, size))

    def _close_group(self) -> None:
        if self.open_key is not None:
            self.groups.append(Group(self.open_key, self.open_offset, tuple(self.open_members)))
        self.open_key, self.open_members = None, []

    def _damage(self, message: str, last: "_Plain | tarfile.TarInfo | None") -> None:
        """Record damage. Keep the groups before it, and drop the open one, which may contain it."""
        self.open_key, self.open_members = None, []
        self._trouble(message, last.name if last else None, last.offset if last else 0)

    def _trouble(self, message: str, member: str | None, offset: int) -> None:
        what = shown_text(member) if member is not None else None
        self.troubles.append(Trouble(message, what, offset, len(self.groups)))

    def _archive_end(self, file: BinaryIO, offset: int, last: "_Plain | tarfile.TarInfo | None") -> ArchiveEnd:
        """Return how the archive ends. tarfile stops silently at a damaged header, so check for the zero blocks."""
        file.seek(offset)
        blocks = file.read(2 * tarfile.BLOCKSIZE)
        if blocks and (len(blocks) < tarfile.BLOCKSIZE or any(blocks[: tarfile.BLOCKSIZE])):
            self._damage(f"is damaged at byte {offset}: neither a header nor the end of the archive", last)
            return "missing"
        self._close_group()
        if len(blocks) < 2 * tarfile.BLOCKSIZE:
            return "missing"
        return "complete" if _only_zeros(file, blocks) else "trailing data"


class _Plain(NamedTuple):
    """A plain header: a regular file with a short name and an octal size.

    ``offset_data`` is the offset of its bytes, ``next_header`` that of the header after its padded bytes.
    """

    name: str
    offset: int
    size: int
    offset_data: int
    next_header: int


def _plain_members(file: BinaryIO, size: int) -> Iterator[_Plain]:
    """Yield the members from the start of the tar up to the first header that is not plain.

    This is faster: img2dataset writes only plain headers, and tarfile takes 25 microseconds for each.
    """
    descriptor = file.fileno()
    offset = 0
    while True:
        member = _plain(os.pread(descriptor, tarfile.BLOCKSIZE, offset), offset)
        if member is None or member.next_header > size:
            return
        yield member
        offset = member.next_header


def _plain(block: bytes, offset: int) -> _Plain | None:
    """Return the member of a header block, or None unless it is a plain header with a valid checksum."""
    if len(block) < tarfile.BLOCKSIZE:
        return None
    name, size, checksum, kind, magic, prefix = _USTAR.unpack(block)
    if kind not in (b"0", b"\0") or magic != b"ustar" or prefix != _NO_PREFIX:
        return None
    name = name.rstrip(b"\0")
    if b"\0" in name or not name or name.endswith(b"/") or not _OCTAL(size):
        return None
    total = _sum(block[:148]) + 8 * ord(" ") + _sum(block[156:334]) + _sum(block[334:])
    if b"%06o\0 " % total != checksum:
        return None
    data, bytes_ = offset + tarfile.BLOCKSIZE, int(size[:11], 8)
    return _Plain(
        name.decode("utf-8", "surrogateescape"), offset, bytes_, data, data + bytes_ + -bytes_ % tarfile.BLOCKSIZE
    )


def _base_name(path: str) -> str:
    """Return the last part of a member's name. Ignore a slash or ``/.`` at the end, as pathlib does."""
    name = path.rsplit("/", 1)[-1]
    return name if name not in ("", ".") else PurePosixPath(path).name


def _sum(data: bytes) -> int:
    """Return the sum of up to 256 bytes, from Adler-32: its low half is the sum plus 1 (mod 65521). 20 times faster."""
    return (zlib.adler32(data) & 0xFFFF) - 1


def _refuse_cut_member(info: tarfile.TarInfo, next_header: int, size: int) -> None:
    """Raise ReadError for a member that ends after the file or has a negative size, at which a reader would loop."""
    if not info.offset_data <= next_header <= size or info.size < 0:
        raise tarfile.ReadError("unexpected end of data")


def _only_zeros(file: BinaryIO, first: bytes) -> bool:
    while first:
        if any(first):
            return False
        first = file.read(1 << 20)
    return True
