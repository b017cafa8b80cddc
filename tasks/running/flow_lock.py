"""A lock for one flow run per folder: tasks/io/folder_lock.py with the flow run's name and log."""

from contextlib import AbstractContextManager
from pathlib import Path

from prefect import runtime
from prefect.logging import get_run_logger

from tasks.io.folder_lock import one_writer


def alone(folder: Path, what: str, place: Path | None = None) -> AbstractContextManager[None]:
    """Keep a second ``what`` (audit, conversion, …) out of ``folder`` while the block runs.

    ``place`` is the path in the message. Must be called inside a flow run. Raises BusyError with the holder's name.
    """
    return one_writer(folder, what, place, run=runtime.flow_run.name, warn=get_run_logger().warning)
