"""What a file holds (its SHA-256), remembered for as long as its size and times stay the same."""

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
"""``changed`` trusts a noted hash while size, mtime and ctime are those of the note; ``full`` hashes again.

A flow that runs many jobs hashes each file once all the same: under ``full`` it forgets the notes before the first
job, and the jobs trust what they find after that.
"""

_NO_NOTES = {errno.EACCES, errno.EPERM, errno.EROFS}
"""A folder that may not be written to goes without notes."""

_CLOCK_TICK_NS = 20_000_000
"""Times of local file systems advance in steps of up to 10 ms."""


class NotNotedError(Exception):
    """A file's hash is not known without reading the file."""


_may_hash: ContextVar[bool] = ContextVar("may_hash", default=True)


@contextlib.contextmanager
def by_notes_alone() -> Iterator[None]:
    """In the block no file is hashed: one without a note that fits raises NotNotedError."""
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
    """A fingerprint with the stat values it was taken at (nanoseconds).

    ``seal`` is a digest of the other values: a note that was changed on disk would make an unchanged file look new.
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
    """Hashes of files, kept as one small note a file in ``folder``.

    The notes are a cache beside the receipts: deleting them costs time, never correctness.
    """

    def __init__(self, folder: Path, verify: Verify = "changed", keep: bool = True) -> None:
        """``keep``: whether new hashes are noted; without it ``folder`` is only read, until :meth:`keep_notes`."""
        self.folder = folder
        self.verify = verify
        self.keep = keep
        self._held: list[tuple[Path, _Note]] = []

    def forget(self) -> None:
        """Delete all notes, so that every file is hashed again when it is next asked for."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep_notes(self) -> None:
        """Write the notes that were held back, and note new hashes from now on."""
        self.keep = True
        for path, note in self._held:
            self._write(path, note)

    def of(self, path: Path) -> Fingerprint:
        """The fingerprint of ``path``; reads the file only if it may have changed. Raises OSError, NotNotedError."""
        noted = self.noted(path) if self.verify == "changed" else None
        if noted is None and not _may_hash.get():
            raise NotNotedError(path)
        return noted or self._hash(path)

    def noted(self, path: Path) -> Fingerprint | None:
        """The fingerprint noted for ``path``, if the file still has the size and times of the note."""
        stat, note = path.stat(), self._read(path)
        if note is None or (note.size, note.mtime_ns, note.ctime_ns) != _times(stat):
            return None
        return Fingerprint(name=path.name, size=note.size, sha256=note.sha256)

    def remember(self, path: Path, sha256: str) -> Fingerprint:
        """Note the hash of a file that was just written and hashed on the way."""
        note = _Note.of(path.stat(), sha256)
        self._write(path, note)
        return Fingerprint(name=path.name, size=note.size, sha256=sha256)

    def matches(self, path: Path, expected: Fingerprint) -> bool:
        """Whether ``path`` is there and holds what ``expected`` says; its name may be another."""
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
            # A file that changed under the hash is hashed again: the note must describe one state of it.
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
    """A file that changes again within a tick of the file system's clock keeps its times: let the tick pass first."""
    age = time.time_ns() - ctime_ns
    if 0 <= age < _CLOCK_TICK_NS:
        time.sleep((_CLOCK_TICK_NS - age) / 1e9)
