"""Fingerprints of files (size and SHA-256), remembered as long as a file's size and times stay the same."""

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from tasks.io.files import digest, sha256_of, write_json

Verify = Literal["changed", "full"]
"""``changed`` trusts a noted hash while size, mtime and ctime match the note; ``full`` hashes again.

A flow with many jobs hashes each file only once, even under ``full``: it deletes the notes before the first job, and
the jobs then trust the new ones.
"""

_NO_NOTES = {errno.EACCES, errno.EPERM, errno.EROFS}
"""Errors of a folder that cannot be written to: hashes are then not noted."""

_CLOCK_TICK_NS = 20_000_000
"""Twice the coarsest clock step: times of local file systems advance in steps of up to 10 ms."""


class NotNotedError(Exception):
    """A file's hash is not noted, and reading the file is not allowed here."""


_may_hash: ContextVar[bool] = ContextVar("may_hash", default=True)


@contextlib.contextmanager
def by_notes_alone() -> Iterator[None]:
    """Forbid hashing in the block: a file without a matching note raises NotNotedError."""
    token = _may_hash.set(False)
    try:
        yield
    finally:
        _may_hash.reset(token)


class Fingerprint(BaseModel):
    """The content of a file: base name, size in bytes, SHA-256 in hex."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    size: int
    sha256: str


class _Note(BaseModel):
    """A fingerprint and the file's stat values when it was hashed (times in nanoseconds).

    ``seal`` is a digest of the other values. It detects a note that was modified on disk.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    mtime_ns: int
    ctime_ns: int
    sha256: str
    seal: str

    @classmethod
    def of(cls, stat: os.stat_result, sha256: str) -> Self:
        """Return a sealed note."""
        values: dict[str, Any] = dict(zip(("size", "mtime_ns", "ctime_ns"), _times(stat), strict=True))
        values["sha256"] = sha256
        return cls(**values, seal=digest(values))

    @model_validator(mode="after")
    def _seal_fits(self) -> Self:
        if self.seal != digest(self.model_dump(exclude={"seal"})):
            raise ValueError("the note does not fit its seal")
        return self


class Fingerprints:
    """Hashes of files, with one small note per file in ``folder``.

    The notes are a cache beside the receipts. Deleting them costs time, never correctness.
    """

    def __init__(self, folder: Path, verify: Verify = "changed", keep: bool = True) -> None:
        """Open the notes in ``folder``. Without ``keep``, hold new notes back until :meth:`keep_notes` writes them."""
        self.folder = folder
        self.verify = verify
        self.keep = keep
        self._held: list[tuple[Path, _Note]] = []

    def forget(self) -> None:
        """Delete all notes, so that every file is hashed again on its next use."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep_notes(self) -> None:
        """Write the notes that were held back, and write new ones from now on."""
        self.keep = True
        for path, note in self._held:
            self._write(path, note)

    def of(self, path: Path) -> Fingerprint:
        """Return the fingerprint of ``path``. Hash it only if it may have changed. Raises OSError, NotNotedError."""
        noted = self.noted(path) if self.verify == "changed" else None
        if noted is None and not _may_hash.get():
            raise NotNotedError(path)
        return noted or self._hash(path)

    def noted(self, path: Path) -> Fingerprint | None:
        """Return the noted fingerprint of ``path`` if the file still has the note's size and times, else None."""
        stat, note = path.stat(), self._read(path)
        if note is None or (note.size, note.mtime_ns, note.ctime_ns) != _times(stat):
            return None
        return Fingerprint(name=path.name, size=note.size, sha256=note.sha256)

    def remember(self, path: Path, sha256: str) -> Fingerprint:
        """Note the hash of a file that was hashed while it was written; return its fingerprint."""
        note = _Note.of(path.stat(), sha256)
        self._write(path, note)
        return Fingerprint(name=path.name, size=note.size, sha256=sha256)

    def matches(self, path: Path, expected: Fingerprint) -> bool:
        """Return whether ``path`` exists with the size and hash of ``expected``. The name may differ."""
        try:
            if path.stat().st_size != expected.size:
                return False
            return self.of(path).sha256 == expected.sha256
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _hash(self, path: Path) -> Fingerprint:
        while True:
            before = path.stat()
            _outwait_clock_tick(before.st_ctime_ns)
            sha256 = sha256_of(path)
            after = path.stat()
            # Hash again if the file changed meanwhile: the note must describe one state of the file.
            if _times(before) == _times(after):
                return self.remember(path, sha256)

    def _note(self, path: Path) -> Path:
        return self.folder / f"{path.name}.json"

    def _read(self, path: Path) -> _Note | None:
        try:
            return _Note.model_validate_json(self._note(path).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def _write(self, path: Path, note: _Note) -> None:
        if not self.keep:
            self._held.append((path, note))
            return
        try:
            write_json(self._note(path), note.model_dump())
        except OSError as error:
            if error.errno not in _NO_NOTES:
                raise


def _times(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _outwait_clock_tick(ctime_ns: int) -> None:
    """Wait until the clock tick of the last change is over: a second change within it would not change the times."""
    age = time.time_ns() - ctime_ns
    if 0 <= age < _CLOCK_TICK_NS:
        time.sleep((_CLOCK_TICK_NS - age) / 1e9)
