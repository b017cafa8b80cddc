"""Selection of samples: damaged tars before and after the cut-off, empty shards and splits, odd names."""

import json
import re
import subprocess
import sys
import tarfile

import pyarrow.parquet as pq
import pytest

from tasks.contracts.errors import PipelineError, ShardError
from tasks.contracts.settings import ConvertSettings
from tasks.convert import jpeg
from tasks.convert.conversion import Conversion
from tasks.convert.jpeg import check_jpeg
from tasks.convert.models import PrepareFolder
from tasks.convert.plan_files import reject_kinds
from tasks.convert.sample import INVALID, judge
from tasks.convert.scan import scan_shard
from tests.conftest import ROOT
from tests.tasks.convert import reference
from tests.tasks.convert.serial import convert, scan_and_plan
from tests.tasks.raw_shards import picture, record_of, sample, tar_bytes, uid_of, without_end, write_shard


@pytest.fixture
def raw(tmp_path):
    """Three shards of four good samples each."""
    for shard in range(3):
        write_shard(tmp_path / "raw", shard, [sample(f"{shard}{n}", 10 * shard + n) for n in range(4)])
    return tmp_path / "raw"


@pytest.fixture
def counts(raw, tmp_path):
    """Return a function that converts and returns the manifest's counts."""
    return lambda **settings: convert(raw, tmp_path / "out", ConvertSettings(**settings))["counts"]


def damage(path, how):
    """Damage the tar so that it cannot be read beyond its third sample."""
    data, start = path.read_bytes(), path.read_bytes().index(b"13.jpg")
    if how == "cut":
        path.write_bytes(data[: start + 700])
    elif how == "header":
        path.write_bytes(data[:start] + b"X" + data[start + 1 :])
    elif how == "no extension":
        start = data.index(b"13.json")
        path.write_bytes(data[:start] + without_end(tar_bytes([("README", b"x")])) + data[start:])
    else:
        path.write_bytes(data[:start] + without_end(tar_bytes([("14.jpg", b""), ("14.jpg", b"")])) + data[start:])


@pytest.mark.parametrize("how", ["cut", "no extension", "twice"])
def test_damage_after_the_cut_off_does_not_matter(raw, counts, how):
    damage(raw / "00000001.tar", how)
    assert counts(maximum_samples=7)["train"] == 7


@pytest.mark.parametrize(
    ("how", "member"), [("cut", "13.jpg"), ("header", "12.txt"), ("no extension", "README"), ("twice", "14.jpg")]
)
def test_damage_before_the_cut_off_stops_the_conversion_naming_shard_and_member(raw, counts, tmp_path, how, member):
    damage(raw / "00000001.tar", how)
    with pytest.raises(ShardError) as error:
        counts(maximum_samples=9)
    assert "00000001.tar" in str(error.value) and member in str(error.value) and "byte" in str(error.value)
    assert not list((tmp_path / "out").glob("*.tar"))
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("data", [b"", b"<html>", bytes(99)], ids=["zero bytes", "html", "too short"])
def test_a_tar_that_was_scanned_ahead_but_is_never_opened_may_be_anything(raw, tmp_path, data):
    (raw / "00000001.tar").write_bytes(data)
    for workers in (1, 3):
        manifest = convert(raw, tmp_path / f"{workers}", ConvertSettings(maximum_samples=4), workers=workers)
        assert manifest["source"]["raw_shards_opened"] == ["00000000.tar"]
    with pytest.raises(ShardError, match=r"00000001\.tar"):
        convert(raw, tmp_path / "more", ConvertSettings(maximum_samples=5), workers=3)


def test_a_repaired_shard_lets_the_conversion_go_on(raw, counts):
    whole = (raw / "00000001.tar").read_bytes()
    damage(raw / "00000001.tar", "cut")
    with pytest.raises(ShardError):
        counts()
    (raw / "00000001.tar").write_bytes(whole)
    assert counts()["input_samples"] == 12


def test_a_first_shard_that_cannot_be_read_is_named(raw, tmp_path, monkeypatch):
    def unreadable(job):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("tests.tasks.convert.serial.scan_shard", unreadable)
    with pytest.raises(ShardError, match=r"00000000\.tar is needed but could not be scanned.*Input/output error"):
        convert(raw, tmp_path / "out", ConvertSettings())


def test_a_shard_in_the_middle_without_scan_is_never_planned_around(raw, tmp_path, monkeypatch):
    def unreadable(job):
        if job.shard == "00000001":
            raise OSError(5, "Input/output error")
        return scan_shard(job)

    monkeypatch.setattr("tests.tasks.convert.serial.scan_shard", unreadable)
    with pytest.raises(ShardError, match=r"00000001\.tar is needed"):
        convert(raw, tmp_path / "out", ConvertSettings(maximum_samples=5))
    assert convert(raw, tmp_path / "out", ConvertSettings(maximum_samples=4))["counts"]["train"] == 4


@pytest.mark.parametrize("damaged", [False, True])
def test_no_more_shards_are_scanned_than_the_maximum_needs(raw, tmp_path, damaged):
    if damaged:
        damage(raw / "00000001.tar", "cut")
    conversion = Conversion(raw, tmp_path / "out", None, ConvertSettings(maximum_samples=7))
    scan_and_plan(conversion)
    assert set(conversion.scanned) == {"00000000", "00000001"}


def test_duplicates_make_the_conversion_scan_on(raw, tmp_path):
    write_shard(raw, 1, [sample(f"1{n}", n) for n in range(4)])
    manifest = convert(raw, tmp_path / "out", ConvertSettings(maximum_samples=6))
    assert manifest["counts"]["skip_reasons"] == {"duplicate_uid": 4}
    assert len(manifest["source"]["raw_shards_opened"]) == 3


def test_a_maximum_that_is_never_reached_takes_all(counts):
    assert counts(maximum_samples=1000)["train"] == 12


def test_an_empty_shard_and_one_of_rejects_only(raw, tmp_path):
    write_shard(raw, 0, [])
    write_shard(raw, 1, [sample(f"1{n}", n, " ") for n in range(3)])
    manifest = convert(raw, tmp_path / "out", ConvertSettings())
    assert [list(shard.values()) for shard in manifest["shard_counts"]] == [
        ["00000000.tar", 0, 0, 0],
        ["00000001.tar", 3, 0, 3],
        ["00000002.tar", 4, 4, 0],
    ]


@pytest.mark.parametrize("samples", [[], [sample("a", 1, " ")]], ids=["no samples", "no good sample"])
def test_shards_without_any_good_sample_give_an_empty_dataset(tmp_path, samples):
    write_shard(tmp_path / "raw", 0, samples)
    manifest = convert(tmp_path / "raw", tmp_path / "out", ConvertSettings())
    assert (manifest["output_shards"], manifest["accepted"]) == ([], True)
    assert manifest["counts"]["skipped"] == len(samples)
    assert not convert(tmp_path / "raw", tmp_path / "out", ConvertSettings(minimum_train_samples=1))["accepted"]


def test_names_of_shards_may_differ_in_case_alone_and_hold_dots(tmp_path):
    for shard, name in enumerate(["b.1.tar", "A.1.tar", "a.1.tar", "A.0.tar"]):
        write_shard(tmp_path / "raw", shard, [sample(name, shard)]).rename(tmp_path / "raw" / name)
    manifest = convert(tmp_path / "raw", tmp_path / "out", ConvertSettings())
    assert manifest["source"]["raw_shards_opened"] == ["A.0.tar", "A.1.tar", "a.1.tar", "b.1.tar"]
    assert manifest["counts"]["train"] + manifest["counts"]["val"] == 4


def test_either_split_may_be_empty(raw, tmp_path):
    for fraction, split in ((0.0, "train"), (1 - 1e-16, "val")):
        manifest = convert(raw, tmp_path / split, ConvertSettings(validation_fraction=fraction))
        assert {tar["split"] for tar in manifest["output_shards"]} == {split}
        assert manifest["counts"][split] == 12


def test_rejects_are_told_by_reason_and_cause_with_an_example(tmp_path):
    broken = [("c.jpg", picture()[:-40]), *sample("c", 3)[1:]]
    write_shard(tmp_path / "raw", 0, [sample("a", 1, " "), sample("b", 2), broken, sample("d", 4, "")])
    convert(tmp_path / "raw", tmp_path / "out", ConvertSettings())
    first, second = reject_kinds(PrepareFolder(dataset_dir=tmp_path / "out"))
    assert (first["reason"], first["samples"], first["for example"]) == ("empty_caption", 2, "a in 00000000.tar")
    assert (second["reason"], second["samples"], second["for example"]) == ("invalid_sample", 1, "c in 00000000.tar")
    assert "truncated" in second["cause"]


@pytest.mark.parametrize(("extension", "format"), [("jpeg", "JPEG"), ("JPG", "JPEG"), ("png", "PNG"), ("webp", "WEBP")])
def test_a_picture_with_another_extension_is_named_and_the_documented_script_makes_it_a_jpg(
    tmp_path, extension, format
):
    image, *texts = sample("a", 1, jpg=picture(1, format=format))
    write_shard(tmp_path / "raw", 0, [[(f"a.{extension}", image[1]), *texts], sample("b", 2)])
    convert(tmp_path / "raw", tmp_path / "out", ConvertSettings(validation_fraction=0))
    (kind,) = reject_kinds(PrepareFolder(dataset_dir=tmp_path / "out"))
    assert (kind["reason"], kind["samples"]) == ("missing_jpg", 1)
    assert kind["cause"] == f"the sample lacks jpg; it has {extension} instead, which is not converted"
    (script,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(), re.DOTALL)
    command = [sys.executable, "-c", script, str(tmp_path / "raw"), str(tmp_path / "copy")]
    subprocess.run(command, check=True, timeout=60)
    manifest = convert(tmp_path / "copy", tmp_path / "copied", ConvertSettings(validation_fraction=0))
    assert (manifest["counts"]["train"], manifest["counts"]["skipped"]) == (2, 0)


@pytest.mark.parametrize("depth", [801, 950, 100_000])
def test_json_nested_too_deep_is_rejected_naming_the_limit(depth):
    text = json.dumps(record_of("k", uid_of(1), "a caption", exif="@")).replace('"@"', "[" * depth + "]" * depth)
    assert judge("k", picture(), text.encode(), b"a caption").cause == "the JSON is nested more than 800 deep"


def test_reasons_keep_every_character_of_an_extension(tmp_path):
    """Use a PAX name, which may contain NUL bytes: NumPy's text arrays would drop them."""
    shard = [*sample("a", 1), ("a.webp\0" + "x" * 101, b""), *sample("b", 2), ("b." + "y" * 5000 + "\0", b"")]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "00000000.tar").write_bytes(tar_bytes(shard, format=tarfile.PAX_FORMAT))
    expected = reference.convert(tmp_path / "raw")
    manifest = convert(tmp_path / "raw", tmp_path / "out", ConvertSettings())
    assert manifest["counts"] == expected.counts
    assert [len(reason) for reason in manifest["counts"]["skip_reasons"]] == [len("unexpected_webp_") + 101, 5012]


def test_names_that_are_no_unicode_are_told_in_tables_and_messages(tmp_path):
    write_shard(tmp_path / "raw", 0, [sample("a", 1), [("caf\udce9.jpg", b"x")]])
    convert(tmp_path / "raw", tmp_path / "out", ConvertSettings())
    rows = pq.read_table(tmp_path / "out" / ".prepare" / "rejects.parquet").to_pylist()
    assert [(row["key"], row["reason"]) for row in rows] == [(b"caf\xe9", "missing_json_txt")]
    write_shard(tmp_path / "raw", 0, [sample("a", 1), [("caf\udce9", b"x")]])
    with pytest.raises(ShardError, match=r"caf\\udce9"):
        convert(tmp_path / "raw", tmp_path / "other", ConvertSettings())


@pytest.mark.parametrize("depth", [300, 700, 795, 800, 805, 900, 100_000])
@pytest.mark.parametrize("field", ["exif", "url"])
def test_nesting_of_any_depth_never_crashes_the_scan(depth, field):
    record = record_of("k", uid_of(1), "a caption", **{field: "@"})
    text = json.dumps(record).replace('"@"', "[" * depth + "]" * depth).encode()
    verdict = judge("k", picture(), text, b"a caption")
    assert verdict.before_uid in (None, INVALID)
    if not 750 < depth < 900:  # between the two limits, the result may depend on the current depth of the stack
        assert verdict.before_uid == (None if depth < 750 else INVALID)


def test_the_scan_refuses_to_run_where_cut_pictures_would_pass(monkeypatch):
    """Set Pillow's switch, as any library in the process can."""
    monkeypatch.setattr(jpeg.ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(PipelineError, match="LOAD_TRUNCATED_IMAGES is on"):
        check_jpeg(picture())
