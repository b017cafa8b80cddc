"""Progress in words, and that it is only shown where there is something to show it."""

import re

from tasks.progress import ProgressArtifact, with_progress


def test_progress_tells_rate_and_remaining_time():
    artifact = ProgressArtifact("key", 300, "shards", done=100)
    artifact.started -= 60
    words = artifact.in_words(200)
    assert re.fullmatch(r"200 of 300 shards, (99\.\d|100\.0) a minute, about 1 minutes left", words)
    assert "left" not in artifact.in_words(300)


def test_nothing_done_gives_no_forecast():
    assert ProgressArtifact("key", 5, "tars").in_words(0) == "0 of 5 tars, 0.0 a minute"


def test_outside_of_a_run_the_things_pass_through():
    assert list(with_progress(iter("abc"), "key", 10, "letters")) == ["a", "b", "c"]
