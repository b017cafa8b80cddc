"""Let a flow or task end as Failed with a sentence, not with a stack trace."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

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
