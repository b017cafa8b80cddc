"""Failure reasons of a download, counted by kind: details that differ from URL to URL are removed."""

import pytest

from tasks.io.failure_reasons import by_kind, kind_of


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("HTTP Error 404: Not Found", "HTTP Error 404: Not Found"),
        ("HTTP Error 429: Too\nMany   Requests", "HTTP Error 429: Too Many Requests"),
        ("<urlopen error [Errno -2] Name or service not known>", "Name or service not known"),
        ("<urlopen error timed out>", "timed out"),
        ("IncompleteRead(5 bytes read, 17 more expected)", "IncompleteRead"),
        ("Image decoding error", "Image decoding error"),
        ("", "(no reason given)"),
        ("  \n ", "(no reason given)"),
        ("12345", "(no reason given)"),
    ],
)
def test_a_reason_loses_what_differs_from_url_to_url(reason, kind):
    assert kind_of(reason) == kind


def test_hostnames_and_urls_in_quotes_do_not_make_kinds_of_their_own():
    reasons = {f"hostname '{host}.example' doesn't match": 1 for host in "abc"}
    assert list(by_kind(reasons).values()) == [3]


def test_kinds_come_by_frequency_then_name_whatever_the_order_of_the_reasons():
    reasons = {"b": 2, "a": 2, "c": 5, "IncompleteRead(1)": 1, "IncompleteRead(2)": 1}
    expected = {"c": 5, "IncompleteRead": 2, "a": 2, "b": 2}
    assert list(by_kind(reasons).items()) == list(expected.items())
    assert list(by_kind(dict(reversed(reasons.items()))).items()) == list(expected.items())


def test_reasons_that_run_on_are_cut():
    assert len(kind_of("x" * 10_000)) <= 60


def test_reason_of_a_hostile_server_commands_no_terminal() -> None:
    assert kind_of("HTTP Error 404: \x1b]0;x\x07Not\r\nFound") == "HTTP Error 404: \\x1b]0;x\\x07Not Found"
