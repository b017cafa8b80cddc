"""What Dask workers load (``distributed.worker.preload``) to leave out disk flushes: they cost what the disk costs."""

import os


def dask_setup(*_: object) -> None:
    """Let this process flush nothing any more. Dask calls it in its workers."""
    os.fsync = os.fdatasync = lambda descriptor: None
