"""The retry policy of task runs: condition, number and delays."""

from typing import Any

from prefect import Task
from prefect.client.schemas.objects import State, TaskRun

from tasks.contracts.errors import PipelineError, TransientError


def worth_retrying(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:
    """Return whether a retry may succeed: false for errors in data or settings."""
    error = state.data
    return not isinstance(error, PipelineError) or isinstance(error, TransientError)


RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay_seconds": [2.0, 10.0, 30.0],
    # Add up to half of the delay at random, so that many shards do not retry at the same moment.
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": worth_retrying,
}
"""Arguments of ``@task`` for work that is safe to repeat."""
