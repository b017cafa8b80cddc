"""Files that are either complete or missing: written under another name, fsynced, then renamed."""

import contextlib
import errno
import hashlib
import json
import os
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

TEMPORARY_SUFFIX = ".partial"
_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
_PASSING = {errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT}


@contextlib.contextmanager
def atomic_file(path: Path, staging: Path | None = None) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under ``path`` only when the block ends without an error.

    ``staging`` is the folder of the temporary file (by default the target's own). It must lie on the same file
    system. The file's mode follows the umask. Raises the file system's OSError, with the path.
    """
    folder = staging or path.parent
    folder.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{path.name}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _rename(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(path)  # the OSError of a failed write names no file
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def _rename(temporary: Path, path: Path) -> None:
    """Rename the file. Retry after errors of a busy file server: a rename is safe to repeat."""
    for pause in (0.1, 0.5, 2.0):
        try:
            temporary.replace(path)
            return
        except OSError as error:
            if error.errno not in _PASSING:
                raise
        time.sleep(pause)
    temporary.replace(path)


def fsync_folder(folder: Path) -> None:
    """Fsync ``folder``, so that new and renamed files in it survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files that a killed run left in ``folder`` and below."""
    for leftover in folder.rglob(f".*{TEMPORARY_SUFFIX}"):
        leftover.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` atomically."""
    with atomic_file(path) as file:
        file.write(data)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON with sorted keys and a final newline, atomically."""
    write_bytes(path, readable_json(value))


def readable_json(value: Any) -> bytes:
    """Return JSON for files that people read: indent 2, sorted keys, final newline, UTF-8."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    # A lone surrogate (from a file name that is not UTF-8) becomes its JSON escape.
    return text.encode("utf-8", "backslashreplace")


def readable_text(text: str) -> str:
    """Return ``text`` with escapes for what UTF-8 cannot encode, such as the bytes of a name in another encoding."""
    return text.encode("utf-8", "backslashreplace").decode()


def shown_text(text: str) -> str:
    """Return untrusted ``text`` as one line for a message, with escapes for control and reordering characters.

    A terminal would execute control characters, and reordering characters can make a name look like another one.
    """
    return _UNSHOWN.sub(lambda found: found[0].encode("unicode_escape").decode(), readable_text(text))


def canonical_json(value: Any) -> bytes:
    """Return JSON for hashing: sorted keys, without white space, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def digest(value: Any) -> str:
    """Return the SHA-256, in hex, of a JSON value's canonical form."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256, in hex, of a file's bytes. Raises OSError (EIO) if reading ends before the file does."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.file_digest(file, "sha256")
        if file.tell() < size:
            raise OSError(errno.EIO, f"reading ended at byte {file.tell()} of {size}", str(path))
        return digest.hexdigest()
