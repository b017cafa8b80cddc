"""Readers of byte ranges in an open tar. They repeat short reads until the range is complete."""

import errno
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

_LARGEST_GAP = 64 * 1024
"""Most bytes between the members of a sample that are read and thrown away to save extra calls."""

LARGE_MEMBER = 64 << 20
"""Size in bytes above which a member is read piece by piece."""
_PIECE = 1 << 20


def read_ranges(file: BinaryIO, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Read the bytes at each (offset, size) of an open tar, in one call if they lie close together.

    Raises OSError if the file ends too early.
    """
    start = min(ranges)[0]
    ends = [offset + size for offset, size in ranges]
    span = max(ends) - start
    if span > _LARGEST_GAP + sum([size for _, size in ranges]):
        return [read_range(file, offset, size) for offset, size in ranges]
    data = read_range(file, start, span)
    return [data[offset - start : end - start] for (offset, _), end in zip(ranges, ends, strict=True)]


def read_range(file: BinaryIO, offset: int, size: int) -> bytes:
    """Read ``size`` bytes at ``offset``, in as many calls as the file system needs.

    One call returns at most 2 GiB, and network file systems may return less than requested. Raises OSError (EIO) if
    the file ends too early: according to the tar's index, the bytes exist.
    """
    data = os.pread(file.fileno(), size, offset)
    if len(data) == size:
        return data
    parts, missing = [data], size - len(data)
    while missing:
        part = os.pread(file.fileno(), missing, offset + size - missing)
        if not part:
            end = offset + size - missing
            raise OSError(errno.EIO, f"the file ends at byte {end}, {missing} bytes too early", file.name)
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


class MemberFile(io.RawIOBase):
    """A large member of an open tar as a file object, so that it need not fit into memory."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._file = file
        self._offset = offset
        self.size = size
        self._place = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to another position and return it, in bytes from the member's start."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self.size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer``, less at the member's end; return the byte count. Raises OSError like :func:`read_range`."""
        view = memoryview(buffer).cast("B")
        size = min(len(view), max(0, self.size - self._place))
        view[:size] = read_range(self._file, self._offset + self._place, size)
        self._place += size
        return size

    def pieces(self) -> Iterator[bytes]:
        """Yield the whole member piece by piece. Raises OSError like :func:`read_range`."""
        for place in range(0, self.size, _PIECE):
            yield read_range(self._file, self._offset + place, min(_PIECE, self.size - place))


Content = bytes | MemberFile
"""The bytes of a member, or a file object for a large one."""


def read_sample(file: BinaryIO, ranges: Sequence[tuple[int, int]]) -> tuple[Content, bytes, bytes]:
    """Read a sample's JPG, JSON and TXT. Return a JPG above LARGE_MEMBER as a file object. Raises OSError."""
    jpg, json_range, txt = ranges
    if jpg[1] > LARGE_MEMBER:
        return MemberFile(file, *jpg), read_range(file, *json_range), read_range(file, *txt)
    jpg_bytes, json_bytes, txt_bytes = read_ranges(file, ranges)
    return jpg_bytes, json_bytes, txt_bytes


def size_of(content: Content) -> int:
    """Return the size in bytes."""
    return content.size if isinstance(content, MemberFile) else len(content)


def pieces_of(content: Content) -> Iterable[bytes]:
    """Return all bytes in order, as pieces. Iterating over them may raise OSError."""
    return content.pieces() if isinstance(content, MemberFile) else (content,)
