"""Preload module (``distributed.worker.preload``) that turns off disk flushes, whose cost depends on the disk."""

import os


def dask_setup(*_: object) -> None:
    """Disable disk flushes in this process. Dask calls it in its workers."""
    os.fsync = os.fdatasync = lambda descriptor: None
