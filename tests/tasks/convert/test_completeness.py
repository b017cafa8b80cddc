"""Readable tars that may lack samples: an error if the selection reads to their end, unless accepted."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.contracts.errors import ShardError
from tasks.contracts.settings import ConvertSettings
from tasks.convert.conversion import Conversion
from tasks.convert.models import PrepareFolder
from tasks.report.places import Places
from tasks.report.provenance import provenance
from tests.tasks.convert import reference
from tests.tasks.convert.serial import convert, scan_and_plan
from tests.tasks.raw_shards import sample, tar_bytes, without_end, write_shard, write_stats

ACCEPTING = ConvertSettings(validation_fraction=0, accept_cut_tars=True)
REFUSING = ConvertSettings(validation_fraction=0)


def whole(folder: Path) -> Path:
    """Write three shards of three samples with their stats; return the second."""
    for shard in range(3):
        write_shard(folder, shard, [sample(f"{shard}{n}", 10 * shard + n) for n in range(3)])
        write_stats(folder, shard, 3)
    return folder / "00000001.tar"


def cut(tar: Path) -> None:
    data = tar.read_bytes()
    tar.write_bytes(data[: data.index(b"12.jpg")])


def without_its_end(tar: Path) -> None:
    tar.write_bytes(without_end(tar.read_bytes()))


def with_one_zero_block(tar: Path) -> None:
    tar.write_bytes(without_end(tar.read_bytes()) + bytes(512))


def concatenated(tar: Path) -> None:
    tar.write_bytes(tar.read_bytes() + tar_bytes(sample("more", 99)))


def fewer_than_the_stats(tar: Path) -> None:
    tar.write_bytes(tar_bytes([*sample("10", 10), *sample("11", 11)]))


GAPS: dict[Callable[[Path], None], tuple[str, int]] = {
    cut: ("ends without an end of archive", 2),
    without_its_end: ("ends without an end of archive", 3),
    with_one_zero_block: ("ends without an end of archive", 3),
    concatenated: ("holds data after its end of archive", 3),
    fewer_than_the_stats: ("holds 2 samples, but the stats beside it count 3 successes", 2),
}
"""A change to the second tar, the expected message, and how many of its samples can be read."""


@pytest.fixture(params=GAPS, ids=lambda gap: gap.__name__)
def gap(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    made: Callable[[Path], None] = request.param
    return made


def end_of_members(tar: Path, samples: int) -> int:
    return len(without_end(tar_bytes([member for n in range(samples) for member in sample(f"1{n}", 10 + n)])))


def test_a_tar_that_may_lack_samples_is_an_error_naming_tar_and_offset(
    tmp_path: Path, gap: Callable[[Path], None]
) -> None:
    gap(whole(tmp_path / "raw"))
    message, samples = GAPS[gap]
    offset = end_of_members(tmp_path / "raw" / "00000001.tar", samples)
    with pytest.raises(ShardError, match=rf"00000001\.tar {message}.*\(byte {offset}\).*convert\.accept_cut_tars"):
        convert(tmp_path / "raw", tmp_path / "out", REFUSING)
    assert not list((tmp_path / "out").glob("*.tar"))


def test_it_matters_only_where_the_selection_reads_to_its_end(tmp_path: Path, gap: Callable[[Path], None]) -> None:
    gap(whole(tmp_path / "raw"))
    samples = 3 + GAPS[gap][1]
    settings = REFUSING.model_copy(update={"maximum_samples": samples})
    manifest = convert(tmp_path / "raw", tmp_path / "out", settings)
    assert manifest["counts"]["train"] == samples
    assert "accepted_cut_tars" not in manifest["source"]
    with pytest.raises(ShardError, match=r"00000001\.tar"):
        more = REFUSING.model_copy(update={"maximum_samples": samples + 1})
        convert(tmp_path / "raw", tmp_path / "more", more)


def test_an_accepted_one_gives_what_the_reference_reads_and_is_named(
    tmp_path: Path, gap: Callable[[Path], None]
) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    gap(whole(raw))
    manifest = convert(raw, out, ACCEPTING)
    expected = reference.convert(raw, validation_fraction=0)
    assert manifest["counts"] == expected.counts
    assert {name: (out / name).read_bytes() for name in expected.tars} == expected.tars
    (named,) = manifest["source"]["accepted_cut_tars"].items()
    assert named[0] == "00000001.tar" and GAPS[gap][0] in named[1]
    assert json.loads((out / "manifest.json").read_bytes())["source"]["accepted_cut_tars"] == dict([named])
    rows = dict(provenance(Places(out, raw, None, None), manifest))
    assert rows["Accepted although samples may be missing"] == named[1]


def test_accepting_is_no_part_of_the_plan_but_is_asked_again(tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    cut(whole(raw))
    plan = convert(raw, out, ACCEPTING)["plan"]
    assert "accept_cut_tars" not in json.loads(PrepareFolder(dataset_dir=out).plan.read_bytes())["settings"]
    with pytest.raises(ShardError, match=r"00000001\.tar ends without"):
        convert(raw, out, REFUSING)
    assert convert(raw, out, ACCEPTING)["plan"] == plan


def test_a_whole_folder_gives_one_plan_whether_cut_tars_are_accepted_or_not(tmp_path: Path) -> None:
    whole(tmp_path / "raw")
    manifest = convert(tmp_path / "raw", tmp_path / "out", REFUSING)
    assert convert(tmp_path / "raw", tmp_path / "out", ACCEPTING) == manifest
    assert convert(tmp_path / "raw", tmp_path / "new", ACCEPTING) == manifest


def test_a_damaged_tar_is_never_accepted(tmp_path: Path) -> None:
    tar = whole(tmp_path / "raw")
    tar.write_bytes(tar.read_bytes()[:700])
    with pytest.raises(ShardError, match=r"00000001\.tar: .*byte 0") as caught:
        convert(tmp_path / "raw", tmp_path / "out", ACCEPTING)
    assert "accept_cut_tars" not in str(caught.value)


def test_samples_that_lack_members_are_rejects_and_not_lost(tmp_path: Path) -> None:
    whole(tmp_path / "raw")
    write_shard(tmp_path / "raw", 1, [sample("10", 10), sample("11", 11)[:2], sample("12", 12)])
    manifest = convert(tmp_path / "raw", tmp_path / "out", REFUSING)
    assert manifest["counts"]["skip_reasons"] == {"missing_txt": 1}


@pytest.mark.parametrize("stats", [b"", b"[]", b"{}", b"[" * 100_000, b'{"successes": "3"}', b'{"successes": true}'])
def test_stats_that_count_nothing_promise_nothing(tmp_path: Path, stats: bytes) -> None:
    whole(tmp_path / "raw")
    (tmp_path / "raw" / "00000001_stats.json").write_bytes(stats)
    assert convert(tmp_path / "raw", tmp_path / "out", REFUSING)["counts"]["train"] == 9


def test_stats_that_come_after_the_scan_count_too(tmp_path: Path) -> None:
    whole(tmp_path / "raw")
    stats = tmp_path / "raw" / "00000001_stats.json"
    stats.unlink()
    scan_and_plan(Conversion(tmp_path / "raw", tmp_path / "out", None, REFUSING))
    write_stats(tmp_path / "raw", 1, 40)
    with pytest.raises(ShardError, match="count 40 successes"):
        convert(tmp_path / "raw", tmp_path / "out", REFUSING)
