"""When a task run is worth trying again, and how often, and after how long."""

from typing import Any

from prefect import Task
from prefect.client.schemas.objects import State, TaskRun

from tasks.contracts.errors import PipelineError, TransientError


def worth_retrying(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:
    """Whether the same work may succeed later: not after an error that tells of a fault in data or settings."""
    error = state.data
    return not isinstance(error, PipelineError) or isinstance(error, TransientError)


RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay_seconds": [2.0, 10.0, 30.0],
    # Up to half of a delay is added to it by chance, so that many shards do not retry at the same moment.
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": worth_retrying,
}
"""Arguments of ``@task`` for work that may safely be done again."""
