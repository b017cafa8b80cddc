"""Shards with mostly transient failures are downloaded again: the better result stays, none is ever lost."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.contracts.layout import DataRoot
from tasks.images.completion import expected_shards, read_stats, shard_states
from tasks.images.environment import DownloaderEnvironment
from tasks.images.failures import is_mostly_transient
from tasks.images.retry import finish_swap
from tasks.images.supervise import Observer
from tests.tasks.images.conftest import SETTINGS, Slice, copy_of, make_slice
from tests.tasks.images.test_download import does_nothing
from tests.tasks.images.test_raw_samples import samples
from tests.tasks.images.web import Web, serve

pytestmark = pytest.mark.xdist_group("faults")


@pytest.fixture(scope="module")
def flaky_web() -> Iterator[Web]:
    with serve() as running:
        yield running


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, flaky_web: Web, downloader: DownloaderEnvironment) -> Slice:
    """A slice: in the first shard, all but five answers were 503 or 429; in the second, five were 404."""
    root = DataRoot(tmp_path_factory.mktemp("flaky") / "root")
    slice_ = make_slice(root, flaky_web, lambda n: "busy" if n < 10 else "missing" if 15 <= n < 20 else "ok")
    assert slice_.download(downloader).totals.successes == 25
    return slice_


@pytest.fixture
def half_failed(tmp_path: Path, original: Slice, flaky_web: Web) -> Slice:
    """A copy of that slice; the server still gives the same answers."""
    flaky_web.instead.clear()
    return copy_of(original, tmp_path / "root")


def stats(slice_: Slice) -> list[int]:
    return [read_stats(path).successes for path in sorted(slice_.root.shards.glob("*_stats.json"))]


def contents(slice_: Slice) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in slice_.root.shards.iterdir()}


def test_shard_with_transient_failures_is_fetched_again(
    half_failed: Slice, flaky_web: Web, downloader: DownloaderEnvironment
) -> None:
    before, requests = contents(half_failed), flaky_web.requests.copy()
    flaky_web.instead["busy"] = "ok"
    summary = half_failed.download(downloader, retry_failed=True)
    assert (summary.improved_shards, summary.new_shards, stats(half_failed)) == (1, 0, [15, 5, 15])
    assert len(list(samples(half_failed))) == 35
    assert {name for name, data in contents(half_failed).items() if data != before[name]} == {
        "00000000.tar",
        "00000000.parquet",
        "00000000_stats.json",
    }
    assert all(flaky_web.requests[path] == requests[path] for path in requests if "/missing/" in path)
    assert not (half_failed.root.path / "raw" / "retry").exists()


def test_worse_result_is_thrown_away(half_failed: Slice, flaky_web: Web, downloader: DownloaderEnvironment) -> None:
    before = contents(half_failed)
    flaky_web.instead["ok"] = "missing"
    assert half_failed.download(downloader, retry_failed=True).improved_shards == 0
    assert contents(half_failed) == before


def test_retry_that_brings_nothing_loses_nothing(half_failed: Slice) -> None:
    before, said = contents(half_failed), list[str]()
    summary = half_failed.download(
        does_nothing(half_failed.root.path), observer=Observer(warn=said.append), retry_failed=True
    )
    assert summary.improved_shards == 0 and contents(half_failed) == before
    assert "The retry ended early" in said[-1]


@pytest.mark.parametrize("moved", [0, 1, 2, 3])
def test_retry_that_was_killed_while_it_replaced_a_shard_is_finished(copied: Slice, moved: int) -> None:
    scratch = copied.root.path / "raw" / "retry" / "shards"
    scratch.mkdir(parents=True)
    names = [f"00000000{ending}" for ending in (".tar", ".parquet", "_stats.json")]
    for name in names:
        shutil.copy(copied.root.shards / name, scratch / name)
    new = {name: (scratch / name).read_bytes() for name in names}
    for name in names:
        (copied.root.shards / name).write_bytes(b"old")
    for name in names[:moved]:
        (scratch / name).rename(copied.root.shards / name)
    (copied.root.download / "swap.json").write_text(json.dumps(["00000000"]))
    finish_swap(copied.root)
    assert {name: (copied.root.shards / name).read_bytes() for name in names} == new
    assert all(state.done for state in shard_states(copied.root.shards, expected_shards(copied.source.rows, SETTINGS)))
    assert not (copied.root.download / "swap.json").exists()


def test_half_fetched_retry_of_a_killed_run_does_not_count(copied: Slice) -> None:
    scratch = copied.root.path / "raw" / "retry" / "shards"
    scratch.mkdir(parents=True)
    (scratch / "00000000.tar").write_bytes(b"half")
    before = contents(copied)
    finish_swap(copied.root)
    assert contents(copied) == before and not scratch.exists()


def test_failures_that_may_go_away() -> None:
    assert is_mostly_transient({"HTTP Error 503: Service Unavailable": 2, "HTTP Error 404: Not Found": 1})
    assert is_mostly_transient({"<urlopen error [Errno -3] Temporary failure in name resolution>": 1})
    assert is_mostly_transient({"The read operation timed out": 1, "answer took too long in all": 1})
    assert not is_mostly_transient({"HTTP Error 404: Not Found": 2, "HTTP Error 500: Internal Server Error": 2})
    assert not is_mostly_transient({})
