"""A busy hub asks the client to retry later: we wait as long as it asks, up to our time limit."""

import logging
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from demo.hub import busy
from tasks.contracts.errors import TransientError
from tasks.metadata.fetch import fetch_file
from tasks.metadata.hub import retry_after_seconds
from tasks.metadata.slices import SliceFile
from tests.tasks.metadata.conftest import ServeHub
from tests.tasks.metadata.samples import files_in, job


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_hub_is_waited_for_and_the_log_says_so(
    tmp_path: Path, serve: ServeHub, pins: list[SliceFile], caplog: pytest.LogCaptureFixture, status: int
):
    with serve({"a.parquet": [busy(status, "1"), busy(status, "0")]}) as hub, caplog.at_level(logging.WARNING):
        started = time.monotonic()
        assert fetch_file(job(tmp_path, pins[0])).fetched
    assert time.monotonic() - started >= 1
    assert hub.requests[:3] == ["HEAD a.parquet"] * 3
    assert f"answered {status}" in caplog.text and "waiting 1 s" in caplog.text


@pytest.mark.parametrize("status", [429, 503])
def test_a_hub_that_turns_busy_between_question_and_download_is_waited_for(
    tmp_path: Path, serve: ServeHub, pins: list[SliceFile], status: int
):
    with serve({"a.parquet": [busy(status, "0", "GET")] * 2}) as hub:
        assert fetch_file(job(tmp_path, pins[0])).fetched
    assert hub.requests.count("GET a.parquet") == 3


def test_a_busy_hub_that_names_no_time_is_asked_again(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    with serve({"a.parquet": [busy(503)]}):
        assert fetch_file(job(tmp_path, pins[0])).fetched


def test_a_hub_that_is_busy_longer_than_our_patience_is_an_error_that_a_retry_may_mend(
    tmp_path: Path, serve: ServeHub, pins: list[SliceFile]
):
    with serve({"a.parquet": [busy(429, "3600")]}), pytest.raises(TransientError, match="wants 3600 s more"):
        fetch_file(job(tmp_path, pins[0]), patience=5)
    assert files_in(tmp_path / "metadata") == set()


def test_retry_after_is_read_as_seconds_or_as_a_date():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after_seconds("120", now) == 120
    assert retry_after_seconds(format_datetime(now + timedelta(seconds=90), usegmt=True), now) == 90
    assert retry_after_seconds(format_datetime(now - timedelta(seconds=90), usegmt=True), now) == 0
    for nothing in (None, "", "soon", "-5", "²", "1e9", "1 Jan 99999999999 00:00:00 GMT"):
        assert retry_after_seconds(nothing, now) is None


def test_retry_after_as_a_date_is_honoured(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    date = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    with serve({"a.parquet": [busy(503, date)]}), pytest.raises(TransientError, match=r"wants 7[12]\d\d s more"):
        fetch_file(job(tmp_path, pins[0]), patience=5)
