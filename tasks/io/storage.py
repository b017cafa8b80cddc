"""Error messages for storage failures: the file, the cause, and what to do."""

import contextlib
import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tasks.contracts.errors import PipelineError, TransientError

_GO_ON = "then start again: finished work is kept"
_LASTING = {
    errno.ENOSPC: f"the disk is full (or has no inodes left). Make room, {_GO_ON}",
    errno.EDQUOT: f"the quota is used up. Make room or have it raised, {_GO_ON}",
    errno.EFBIG: f"the file may not grow that large here. Raise the limit on file sizes (ulimit -f), {_GO_ON}",
    errno.EROFS: "the file system is read-only here. Mount it writable, or name another folder",
    errno.EACCES: f"this user may not do that. Let it read and write there, {_GO_ON}",
    errno.EPERM: f"this user may not do that. Let it read and write there, {_GO_ON}",
    errno.ENOTDIR: f"a file lies where a folder should be. Move it away, {_GO_ON}",
    errno.EISDIR: f"a folder lies where a file should be. Move it away, {_GO_ON}",
    errno.ENAMETOOLONG: "the name is too long for this file system. Name a folder with a shorter path",
}
_PASSING = {
    errno.EIO: "the storage could not read or write it",
    errno.ESTALE: "the file server no longer knows the file (stale handle)",
    errno.ENOENT: "it is gone, or this host does not see it yet",
    errno.EBUSY: "the storage says that it is busy",
    errno.ETIMEDOUT: "the storage did not answer in time",
    errno.EREMOTEIO: "the file server could not read or write it",
}
"""Errors that a retry may not meet again."""

_OF_STORAGE_ALONE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE, errno.EREMOTEIO}


def in_words(error: OSError) -> PipelineError | None:
    """Return the error as a PipelineError with a readable message, or None if it does not come from storage.

    Returns a TransientError if a retry may succeed. An error without a file name counts only if sockets and programs
    cannot raise its errno.
    """
    number = error.errno
    if number is None or (error.filename is None and number not in _OF_STORAGE_ALONE):
        return None
    what = error.filename or "a file"
    if number in _LASTING:
        return PipelineError(f"{what}: {_LASTING[number]} ({error.strerror})")
    if number in _PASSING:
        return TransientError(f"{what}: {_PASSING[number]} ({error.strerror}). Look at the storage, {_GO_ON}")
    return None


@contextlib.contextmanager
def temporary_folder(prefix: str, use: str) -> Iterator[Path]:
    """Create a folder in TMPDIR and remove it after the block.

    ``use`` is its purpose for the error message, as in "indexing needs 300 bytes a sample there". Raises
    PipelineError if TMPDIR is full.
    """
    folder = ""
    try:
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            yield Path(folder)
    except OSError as error:
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        here = not names or any(name.startswith(folder) for name in names)
        nowhere = not folder and error.errno == errno.ENOENT  # from Python if no temporary folder is writable
        if nowhere or (here and error.errno in (errno.ENOSPC, errno.EDQUOT)):
            raise full_tmpdir(use) from None
        raise


def full_tmpdir(use: str) -> PipelineError:
    """Return the PipelineError for a full TMPDIR."""
    with contextlib.suppress(FileNotFoundError):
        use = f"{use} ({tempfile.gettempdir()})"
    return PipelineError(
        f"the temporary folder is full: {use}. Make room there, or set TMPDIR to a local folder with more, {_GO_ON}"
    )


def spoken(error: Exception) -> Exception:
    """Return the readable form of a storage error; return any other error unchanged."""
    return (isinstance(error, OSError) and in_words(error)) or error
