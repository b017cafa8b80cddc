"""Groups of jobs: the results of a task run with many shards, and the jobs that remain for a retry."""

import logging
import pickle
from dataclasses import dataclass, field

import pytest

from tasks.contracts.errors import ShardError, TransientError
from tasks.running import groups
from tasks.running.groups import Group, GroupError, TransientGroupError, do_each, group_size, in_groups


@dataclass
class Job:
    """A job that fails once with each error in ``ways``, then succeeds, and has nothing to do after that."""

    name: str
    ways: list[Exception] = field(default_factory=list)
    done: int = 0

    def work(self):
        if not self.done:
            if self.ways:
                raise self.ways.pop(0)
            self.done += 1


@pytest.fixture(autouse=True)
def outside_of_a_run(monkeypatch):
    monkeypatch.setattr(groups, "get_run_logger", lambda: logging.getLogger("test"))


@pytest.mark.parametrize(("jobs", "size"), [(0, 1), (1, 1), (2000, 1), (2001, 2), (4000, 2), (140_000, 70)])
def test_there_are_never_more_task_runs_than_the_setting_says(jobs, size):
    assert group_size(jobs, 2000) == size
    made = list(in_groups(map(Job, map(str, range(jobs))), size))
    assert len(made) <= 2000
    assert [job.name for group in made for job in group.jobs] == [str(n) for n in range(jobs)]


def test_names_say_the_range():
    first, second, last = in_groups(map(Job, ["00000000", "00000001", "00000002", "00000003", "00000004"]), 2)
    assert (first.name, second.name, last.name) == ("00000000..00000001", "00000002..00000003", "00000004")


def test_failing_shard_is_named_and_the_others_finish():
    jobs = (Job("a"), Job("b", [ShardError("no such tar")]), Job("c"), Job("d", [ShardError("cut")]))
    with pytest.raises(GroupError) as error:
        do_each(Group(jobs), Job.work)
    assert [job.done for job in jobs] == [1, 0, 1, 0]
    assert str(error.value) == "b: no such tar; d: cut"
    assert not isinstance(error.value, TransientError)


def test_retry_does_only_what_is_unfinished():
    jobs = (Job("a"), Job("b", [OSError(5, "Input/output error"), TransientError("busy")]), Job("c"))
    for said in ("b: a file: the storage could not read or write it", "b: busy"):
        with pytest.raises(TransientGroupError) as error:
            do_each(Group(jobs), Job.work)
        assert str(error.value).startswith(said)
    assert do_each(Group(jobs), Job.work) == 3
    assert [job.done for job in jobs] == [1, 1, 1]


def test_only_job_of_a_group_fails_with_its_own_error():
    with pytest.raises(ZeroDivisionError):
        do_each(Group((Job("a", [ZeroDivisionError()]),)), Job.work)


def test_errors_of_many_shards_come_back_from_a_worker_whole_and_are_told_in_short():
    error = pickle.loads(pickle.dumps(TransientGroupError({f"{n:08d}": "gone" for n in range(50)})))
    assert isinstance(error, TransientError) and len(error.failures) == 50
    assert str(error).startswith("00000000: gone; 00000001: gone") and str(error).endswith(
        "00000019: gone; and 30 more"
    )


def test_halves_end_in_groups_of_one():
    group = Group(tuple(map(Job, "abcde")))
    assert [half.name for half in group.halves()] == ["a..b", "c..e"]
    assert [half.name for half in group.halves()[0].halves()] == ["a", "b"]
    assert Group(group.jobs[:1]).halves() == ()
