"""Let a flow or task end as Failed with a sentence, not with a stack trace."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from prefect import Task
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Failed

from tasks.errors import PipelineError, TransientError

P = ParamSpec("P")
R = TypeVar("R")


def fails_in_words(function: Callable[P, R]) -> Callable[P, R]:
    """Turn a PipelineError that the function raises into a Failed state with its message.

    A TransientError is raised on, since Prefect retries what is raised; so is a fault of the program, with its trace.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TransientError:
            raise
        except PipelineError as error:
            get_run_logger().error("%s", error)
            return Failed(message=str(error), data=error)  # type: ignore[return-value]

    return wrapped


def run_task(task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a task in this process and return its result; raises what it failed with.

    A task that is called plainly hands a returned Failed state on as if it were a result.
    """
    state: State[R] = task(*args, return_state=True, **kwargs)
    return state.result()
