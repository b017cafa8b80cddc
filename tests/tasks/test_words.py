"""Failures of tasks and flows: a clear message, and as many retries as suit the error."""

import errno
import logging
from pathlib import Path

import pytest
from prefect import flow, task
from prefect.flow_engine import run_flow

from tasks.contracts.errors import GateError, TransientError
from tasks.io.storage import in_words
from tasks.running.outcomes import fails_in_words, run_task
from tasks.running.retries import RETRIES

AT_ONCE = RETRIES | {"retry_delay_seconds": 0}


class Failing:
    """A task that fails with one error, and a flow of it."""

    def __init__(self, error: Exception) -> None:
        self.error, self.tries = error, 0

    def end(self) -> str:
        """Run the flow; return the message of its state."""

        @task(**AT_ONCE)
        @fails_in_words
        def work() -> None:
            self.tries += 1
            raise self.error

        @flow
        @fails_in_words
        def stage() -> None:
            run_task(work)

        state = stage(return_state=True)
        assert state.is_failed()
        return str(state.message)


STORAGE = [
    (errno.ENOSPC, "the disk is full", 1),
    (errno.EDQUOT, "the quota is used up", 1),
    (errno.EROFS, "read-only", 1),
    (errno.EACCES, "this user may not", 1),
    (errno.EFBIG, "ulimit -f", 1),
    (errno.ESTALE, "stale handle", 4),
    (errno.EIO, "could not read or write", 4),
    (errno.ENOENT, "it is gone", 4),
]


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize(("number", "words", "tries"), [STORAGE[0], STORAGE[6]])
def test_fault_of_the_storage_ends_in_a_sentence_without_a_trace(
    number: int, words: str, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Failing(OSError(number, "from the system", "/data/x.tar"))
    with caplog.at_level(logging.ERROR):
        message = failing.end()
    assert message.startswith("/data/x.tar: ") and words in message
    assert failing.tries == tries
    assert words in caplog.text and "Traceback" not in caplog.text


@pytest.mark.usefixtures("prefect_server")
def test_fault_of_the_data_is_not_tried_again() -> None:
    failing = Failing(GateError("too few"))
    assert failing.end() == "too few" and failing.tries == 1


@pytest.mark.parametrize(("number", "words", "tries"), STORAGE)
def test_every_fault_of_the_storage_has_words(number: int, words: str, tries: int) -> None:
    told = in_words(OSError(number, "from the system", str(Path("/data/x.tar"))))
    assert told and words in str(told) and "/data/x.tar" in str(told)
    assert isinstance(told, TransientError) == (tries > 1)


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), TimeoutError("slow"), OSError("odd")])
def test_other_faults_are_left_as_they_are(error: OSError) -> None:
    assert in_words(error) is None


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("error", [GateError("too few"), ZeroDivisionError("a fault of ours")])
def test_log_of_a_deployed_run_has_a_trace_only_of_faults_of_the_program(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @flow
    @fails_in_words
    def stage() -> None:
        raise error

    logger = logging.getLogger("prefect.flow_runs")
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger.parent, "propagate", True)
    with pytest.raises(type(error)):
        run_flow(stage, error_logger=logger)  # as the process does that a worker starts
    assert str(error) in caplog.text
    assert ("Traceback" in caplog.text) == isinstance(error, ZeroDivisionError)
