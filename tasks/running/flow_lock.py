"""One flow run a folder: the lock of tasks/io/folder_lock.py, held in the flow run's name and telling in its log."""

from contextlib import AbstractContextManager
from pathlib import Path

from prefect import runtime
from prefect.logging import get_run_logger

from tasks.io.folder_lock import one_writer


def alone(folder: Path, what: str, place: Path | None = None) -> AbstractContextManager[None]:
    """Keep a second ``what`` (audit, conversion, …) out of ``folder`` while the block runs.

    ``place`` is what the message names. Must be called inside a flow run; raises BusyError that names the holder.
    """
    return one_writer(folder, what, place, run=runtime.flow_run.name, warn=get_run_logger().warning)
