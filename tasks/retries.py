"""When a task run is worth trying again, and how long to wait before it is."""

from typing import Any

from prefect import Task
from prefect.client.schemas.objects import State, TaskRun

from tasks.errors import PipelineError, TransientError

RETRY_DELAYS = [2.0, 10.0, 30.0]
"""Seconds before each retry; with RETRY_JITTER, many shards do not retry at the same moment."""

RETRY_JITTER = 0.5
"""Up to this share of a delay is added to it by chance."""


def worth_retrying(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:
    """Whether the same work may succeed later: not after an error that tells of a fault in data or settings."""
    error = state.data
    return not isinstance(error, PipelineError) or isinstance(error, TransientError)
