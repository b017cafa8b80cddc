"""A file lock that the operating system releases when its holder dies."""

import contextlib
import errno
import fcntl
from collections.abc import Iterator
from pathlib import Path

NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK}
"""Errors of file systems without locks (Lustre mounted without ``flock``, some NFS)."""


@contextlib.contextmanager
def exclusive(path: Path, wait: bool) -> Iterator[None]:
    """Hold the lock on ``path`` (created if missing). Raises BlockingIOError if it is taken and ``wait`` is false.

    On a file system without locks nothing is held, so the protected files must be complete at any moment.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield
