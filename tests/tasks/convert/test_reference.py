"""Compare with an independent serial implementation: the same tars, byte for byte, and every sample accounted for."""

import random

import pyarrow.parquet as pq
import pytest

from tasks.contracts.errors import ShardError
from tasks.contracts.settings import ConvertSettings
from tests.tasks.convert import reference
from tests.tasks.convert.defects import DEFECTS, random_settings, random_shards
from tests.tasks.convert.serial import convert
from tests.tasks.raw_shards import sample, uid_of, write_shard


def compare(source, output, excluded=frozenset(), **settings):
    """Compare our conversion of ``source`` with the reference."""
    expected = reference.convert(source, excluded=excluded, **settings)
    manifest = convert(source, output, settings_with(source, excluded, settings))
    assert {path.name: path.read_bytes() for path in output.glob("*.tar")} == expected.tars
    assert manifest["counts"] == expected.counts
    assert manifest["source"]["raw_shards_opened"] == expected.opened
    rejects = pq.read_table(output / ".prepare" / "rejects.parquet").to_pylist()
    assert [(row["raw_tar"], row["reason"]) for row in rejects] == expected.rejects
    for shard in manifest["shard_counts"]:
        assert shard["inputs"] == shard["outputs"] + shard["rejects"]
    assert sum(shard["inputs"] for shard in manifest["shard_counts"]) == expected.inputs
    return expected


def settings_with(source, excluded, settings):
    """Return the settings, with the exclusion list in a file."""
    if not excluded:
        return ConvertSettings(**settings)
    path = source.parent / "excluded"
    path.write_text("\n".join(sorted(excluded)))
    return ConvertSettings(**settings, exclude_uids=path)


def test_every_defect_by_itself(tmp_path):
    """Write one sample for each defect, then a good copy with the same uid: it is emitted if the first was not."""
    samples = []
    for number, name in enumerate(DEFECTS):
        samples += [DEFECTS[name](f"{number:06d}a", number), DEFECTS["good"](f"{number:06d}b", number)]
    write_shard(tmp_path / "raw", 0, samples)
    expected = compare(tmp_path / "raw", tmp_path / "out", max_samples_per_tar=20)
    reasons = expected.counts["skip_reasons"]
    good = sum(name.startswith("good") for name in DEFECTS)
    assert good <= reasons["duplicate_uid"] < len(DEFECTS)
    assert {"invalid_sample", "empty_caption", "missing_jpg_json", "unexpected_JPG_zip", "unexpected_"} <= set(reasons)


@pytest.mark.parametrize(("markers", "aspects"), [(True, False), (False, True), (True, True)])
def test_odd_samples_are_left_out_where_a_setting_says_so_and_a_later_good_copy_is_not(tmp_path, markers, aspects):
    samples = []
    for number, name in enumerate(DEFECTS):
        samples += [DEFECTS[name](f"{number:06d}a", number), DEFECTS["good"](f"{number:06d}b", number)]
    write_shard(tmp_path / "raw", 0, samples)
    dropping = {"drop_chat_markers": markers, "drop_extreme_aspect_ratios": aspects}
    expected = compare(tmp_path / "raw", tmp_path / "out", max_samples_per_tar=20, **dropping)
    reasons = expected.counts["skip_reasons"]
    assert reasons.get("chat_marker", 0) == (2 if markers else 0)
    assert reasons.get("extreme_aspect_ratio", 0) == (2 if aspects else 0)
    causes = pq.read_table(tmp_path / "out" / ".prepare" / "rejects.parquet").to_pylist()
    told = {row["reason"]: row["cause"] for row in causes}
    assert not markers or told["chat_marker"] == "the caption holds a chat marker"
    assert not aspects or "200 times" in told["extreme_aspect_ratio"]


@pytest.mark.parametrize("seed", range(36))
def test_random_shards_and_settings(tmp_path, seed):
    random_shards(tmp_path / "raw", seed)
    settings = random_settings(seed)
    rng = random.Random(f"excluded {seed}")
    excluded = frozenset(uid_of(n) for n in range(6) if rng.random() < 0.3) if rng.random() < 0.5 else frozenset()
    try:
        reference.convert(tmp_path / "raw", excluded=excluded, **settings)
    except reference.BrokenTar as broken:
        with pytest.raises(ShardError) as error:
            convert(tmp_path / "raw", tmp_path / "out", settings_with(tmp_path / "raw", excluded, settings))
        assert all(part in str(error.value) for part in broken.args)
    else:
        compare(tmp_path / "raw", tmp_path / "out", excluded, **settings)


@pytest.mark.parametrize("maximum", [1, 3, 4, 5, 6, 7, 9, 10])
def test_a_cut_off_at_or_near_the_end_of_a_shard(tmp_path, maximum):
    for shard in range(3):
        names = ["good", "good", "blank", "good"] if shard != 1 else ["blank", "good", "good", "good", "no txt"]
        samples = [DEFECTS[name](f"{shard}{place}", 10 * shard + place) for place, name in enumerate(names)]
        write_shard(tmp_path / "raw", shard, samples)
    expected = compare(tmp_path / "raw", tmp_path / "out", max_samples_per_tar=3, maximum_samples=maximum)
    assert len(expected.opened) == min((maximum + 2) // 3, 3)


def test_a_plan_of_many_tars_lies_in_files_of_a_hundred_tars_each(tmp_path):
    for shard in range(2):
        write_shard(tmp_path / "raw", shard, [sample(f"{shard}{n}", 200 * shard + n) for n in range(105)])
    too_many = tmp_path / "out" / ".prepare" / "plan" / "samples-000003.parquet"
    too_many.parent.mkdir(parents=True)
    too_many.write_bytes(b"of an earlier plan")
    compare(tmp_path / "raw", tmp_path / "out", max_samples_per_tar=1, validation_fraction=0.5)
    files = sorted(too_many.parent.iterdir())
    assert [path.name for path in files] == [f"samples-{number:06d}.parquet" for number in range(3)]
    assert [pq.read_metadata(path).num_row_groups for path in files] == [100, 100, 10]
