"""Retries of the worker's requests to a Prefect API that is temporarily busy or down."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from deployments.patience import temporary_failure
from deployments.slurm.settings import SlurmWorkerSettings

_LONGEST_DELAY = 15.0
Result = TypeVar("Result")


async def ask_before_submission(request: Callable[[], Awaitable[Result]], report: Callable[[str], None]) -> Result:
    """Return the result of ``request``. Retry while the API is busy or down, and report each failure.

    The request must be safe to repeat. Raises its last error after half of ``orphan_seconds``: later, another worker
    may treat the run as abandoned and reschedule it.
    """
    loop = asyncio.get_running_loop()
    delay, deadline = 0.5, loop.time() + SlurmWorkerSettings().orphan_seconds / 2
    while True:
        try:
            return await request()
        except Exception as error:
            trouble = temporary_failure(error)
            if trouble is None or loop.time() + delay > deadline:
                raise
            report(f"The Prefect API {trouble}; trying again in {delay:.1f} s")
        await asyncio.sleep(delay)
        delay = min(delay * 2, _LONGEST_DELAY)
