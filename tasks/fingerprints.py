"""What a file holds (its SHA-256), remembered for as long as its size and times stay the same."""

import contextlib
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.files import sha256_of, write_json

Verify = Literal["changed", "full"]
"""``changed`` trusts a noted hash while size, mtime and ctime are those of the note; ``full`` hashes again."""


class Fingerprint(BaseModel):
    """The content of a file: base name, size in bytes, SHA-256 in hex."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    size: int
    sha256: str


class _Note(BaseModel):
    """A fingerprint with the stat values it was taken at (nanoseconds)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    mtime_ns: int
    ctime_ns: int
    sha256: str


class Fingerprints:
    """Hashes of files, kept as one small note a file in ``folder``.

    The notes are a cache beside the receipts: deleting them costs time, never correctness.
    """

    def __init__(self, folder: Path, verify: Verify = "changed") -> None:
        self.folder = folder
        self.verify = verify

    def of(self, path: Path) -> Fingerprint:
        """The fingerprint of ``path``; reads the file only if it may have changed. Raises OSError."""
        noted = self.noted(path) if self.verify == "changed" else None
        return noted or self._hash(path)

    def noted(self, path: Path) -> Fingerprint | None:
        """The fingerprint noted for ``path``, if the file still has the size and times of the note."""
        stat, note = path.stat(), self._read(path)
        times = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        if note is None or (note.size, note.mtime_ns, note.ctime_ns) != times:
            return None
        return Fingerprint(name=path.name, size=note.size, sha256=note.sha256)

    def remember(self, path: Path, sha256: str) -> Fingerprint:
        """Note the hash of a file that was just written and hashed on the way."""
        stat = path.stat()
        note = _Note(size=stat.st_size, mtime_ns=stat.st_mtime_ns, ctime_ns=stat.st_ctime_ns, sha256=sha256)
        with contextlib.suppress(PermissionError):  # a folder that may not be written to goes without notes
            write_json(self._note(path), note.model_dump())
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
            sha256 = sha256_of(path)
            after = path.stat()
            # A file that changed under the hash is hashed again: the note must describe one state of it.
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                return self.remember(path, sha256)

    def _note(self, path: Path) -> Path:
        return self.folder / f"{path.name}.json"

    def _read(self, path: Path) -> _Note | None:
        try:
            return _Note.model_validate_json(self._note(path).read_bytes())
        except (FileNotFoundError, ValidationError, json.JSONDecodeError):
            return None
