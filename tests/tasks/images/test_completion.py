"""Expected shards, and which of them count as done."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.contracts.settings import DownloadSettings
from tasks.images.completion import (
    ExpectedShard,
    expected_shards,
    remove_invalid_stats,
    shard_state,
    shard_states,
    unexpected_files,
)
from tasks.images.totals import add_up

SHARD = ExpectedShard("00000007", 10)
GOOD = {
    "count": 10,
    "successes": 6,
    "failed_to_download": 3,
    "failed_to_resize": 1,
    "duration": 1.5,
    "status_dict": {"success": 6, "HTTP Error 404: Not Found": 3, "two\nlines": 1},
}


def tar_bytes() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("x.jpg"))
    return file.getvalue()


def write_good(folder: Path, shard: ExpectedShard = SHARD) -> None:
    folder.joinpath(f"{shard.name}.tar").write_bytes(tar_bytes())
    folder.joinpath(f"{shard.name}_stats.json").write_text(json.dumps(GOOD))


def test_tutorial_slice_has_216_shards_and_2133334_attempts() -> None:
    rows = {"d": 540_499, "a": 532_229, "b": 517_671, "c": 542_935}
    shards = expected_shards(rows, DownloadSettings())
    assert len(shards) == 216
    assert sum(shard.attempts for shard in shards) == 2_133_334
    assert (shards[0].name, shards[-1].name) == ("00000000", "00000215")
    assert shards[53].attempts == 532_229 % 10_000


@given(st.dictionaries(st.text("ab", min_size=1), st.integers(0, 100)), st.integers(1, 30))
def test_every_row_belongs_to_one_expected_shard(rows: dict[str, int], size: int) -> None:
    shards = expected_shards(rows, DownloadSettings(number_sample_per_shard=size, oom_shard_count=5))
    assert sum(shard.attempts for shard in shards) == sum(rows.values())
    assert all(1 <= shard.attempts <= size for shard in shards)
    assert [int(shard.name) for shard in shards] == list(range(len(shards)))


def test_whole_shard_is_done(tmp_path: Path) -> None:
    write_good(tmp_path)
    state = shard_state(tmp_path, SHARD)
    assert state.done and state.stats is not None
    assert state.stats.failures == {"HTTP Error 404: Not Found": 3, "two\nlines": 1}


def set_stats(**changes: object) -> Callable[[Path], object]:
    return lambda folder: (folder / "00000007_stats.json").write_text(json.dumps(GOOD | changes))


def cut(name: str, keep: int) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:keep])


def remove(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (remove("00000007_stats.json"), "tar without stats"),
        (remove("00000007.tar"), "no tar"),
        (cut("00000007.tar", 0), "tar is empty"),
        (cut("00000007.tar", 700), "it was cut"),
        (cut("00000007_stats.json", 0), "stats cannot be read"),
        (cut("00000007_stats.json", 40), "stats cannot be read"),
        (set_stats(successes=None), "no usable successes"),
        (set_stats(count="10"), "no usable count"),
        (set_stats(count=True), "no usable count"),
        (set_stats(count=10.0), "no usable count"),
        (set_stats(failed_to_resize=-1), "no usable failed_to_resize"),
        (set_stats(successes=7), "do not add up"),
        (set_stats(count=9, successes=5), "the metadata has 10 rows"),
        (set_stats(status_dict=None), "no usable status_dict"),
        (lambda folder: (folder / "00000007_stats.json").write_text("[]"), "not a JSON object"),
    ],
)
def test_broken_shard_is_not_done(tmp_path: Path, damage: Callable[[Path], object], reason: str) -> None:
    write_good(tmp_path)
    damage(tmp_path)
    state = shard_state(tmp_path, SHARD)
    assert not state.done
    assert reason in state.reason


def test_shard_that_never_began_is_not_downloaded(tmp_path: Path) -> None:
    assert shard_state(tmp_path / "nowhere", SHARD).reason == "not downloaded"


def test_only_stats_of_broken_shards_are_removed(tmp_path: Path) -> None:
    other = ExpectedShard("00000008", 10)
    write_good(tmp_path)
    write_good(tmp_path, other)
    set_stats(count=3)(tmp_path)
    assert remove_invalid_stats(tmp_path, shard_states(tmp_path, [SHARD, other])) == ["00000007"]
    assert {path.name for path in tmp_path.glob("*.json")} == {"00000008_stats.json"}


def test_foreign_files_are_named(tmp_path: Path) -> None:
    write_good(tmp_path)
    for name in ("00000009.tar", "0000007.tar", "notes.json", "00000007.txt", ".nfs0001", "00000007.parquet"):
        (tmp_path / name).touch()
    (tmp_path / "_tmp").mkdir()
    assert unexpected_files(tmp_path, [SHARD]) == ["00000007.txt", "00000009.tar", "0000007.tar", "notes.json"]


def test_totals_group_failures_by_reason(tmp_path: Path) -> None:
    write_good(tmp_path)
    stats = shard_state(tmp_path, SHARD).stats
    assert stats is not None
    totals = add_up([stats, stats])
    assert (totals.shards, totals.attempts, totals.successes) == (2, 20, 12)
    assert list(totals.failures.items()) == [("HTTP Error 404: Not Found", 6), ("two\nlines", 2)]
    assert totals.in_kinds().failures == {"HTTP Error 404: Not Found": 6, "two lines": 2}
