"""Progress messages; progress is only reported where something can show it."""

import re

import pytest

from tasks.running.pace import Pace, duration
from tasks.running.progress import SCREEN, with_progress


def test_progress_tells_rate_and_remaining_time():
    pace = Pace(300, "shards", done=100)
    pace.started -= 60
    pace.done = 200
    assert re.fullmatch(r"200 of 300 shards, (99|100) a minute, about 60 s left", pace.in_words())
    assert pace.percentage == pytest.approx(66.67, abs=0.01)
    pace.done = 300
    assert "left" not in pace.in_words()


def test_nothing_done_gives_no_forecast():
    assert Pace(5, "tars").in_words() == "0 of 5 tars, 0.0 a minute"


@pytest.mark.parametrize(("seconds", "words"), [(40.4, "40 s"), (720, "12 min"), (11_100, "3 h 5 min")])
def test_durations_are_told_in_units_that_fit(seconds, words):
    assert duration(seconds) == words


def test_outside_of_a_run_the_things_pass_through_unshown():
    shown = []
    token = SCREEN.set(lambda key, pace: shown.append(key))
    assert list(with_progress(iter("abc"), "key", 10, "letters")) == ["a", "b", "c"]
    SCREEN.reset(token)
    assert shown == []
