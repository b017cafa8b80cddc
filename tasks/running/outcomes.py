"""Decorators that end a flow or task with a readable result or error message instead of a stack trace."""

import functools
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

from prefect import Task
from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext, get_run_context
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed

from tasks.contracts.errors import PipelineError, TransientError
from tasks.io.storage import in_words
from tasks.running.stage_results import write_stage_result

P = ParamSpec("P")
R = TypeVar("R")


class Told(Protocol):
    """A flow's result: a pydantic model with a summary in one sentence."""

    def in_words(self) -> str:
        """Return the summary in one line."""

    def model_dump_json(self) -> str:
        """Return the result as one JSON object."""


ToldResult = TypeVar("ToldResult", bound=Told)


def fails_in_words(function: Callable[P, R]) -> Callable[P, R]:
    """Turn a PipelineError or storage error that the function raises into a Failed state with its message.

    Reraise a TransientError while a retry is left, since Prefect retries only raised errors. Any other error is
    reraised with its stack trace.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PipelineError as error:
            return _failed(error)
        except OSError as error:
            told = in_words(error)
            if told is None:
                raise
            return _failed(told)

    return wrapped


def _tells_anew(record: logging.LogRecord) -> bool:
    """Return whether to keep a log record. Prefect's engine logs a deployed run's failure again, with its trace."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, PipelineError) and str(record.msg).startswith("Engine execution exited"))


logging.getLogger("prefect.flow_runs").addFilter(_tells_anew)


def _failed(error: PipelineError) -> Any:
    if isinstance(error, TransientError) and _is_retried():
        raise error from None
    get_run_logger().error("%s", error)
    return Failed(message=str(error), data=error)


def _is_retried() -> bool:
    """Return whether Prefect will retry the running task or flow if it raises."""
    context = get_run_context()
    if isinstance(context, TaskRunContext):
        return context.task_run.run_count <= context.task.retries
    run = context.flow_run
    return run is not None and run.run_count <= (run.empirical_policy.retries or 0)


def ends_in_words(function: Callable[P, ToldResult]) -> Callable[P, ToldResult]:
    """Wrap a flow like ``fails_in_words``, and put the result's summary into the message of its Completed state.

    Prefect returns the state's data, so that a caller of the flow gets the result.
    """
    failing = fails_in_words(function)

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> ToldResult:
        result = failing(*args, **kwargs)
        if isinstance(result, State):
            return result
        write_stage_result(result)
        return Completed(message=result.in_words(), data=result)  # type: ignore[return-value]

    return wrapped


def run_task(task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a task in this process and return its result. Raises the error that it failed with.

    A plain call would return a Failed state as if it were a result.
    """
    state: State[R] = task(*args, return_state=True, **kwargs)
    return state.result()
