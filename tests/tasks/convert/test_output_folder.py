"""The output folder: new or ours is used, any other is rejected and stays exactly as it was."""

import json
import os
import random
import shutil

import pytest

from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.contracts.errors import PlanError, SettingsError
from tasks.contracts.settings import ConvertSettings
from tasks.convert.conversion import Conversion
from tasks.convert.scan import scan_shard
from tests.tasks.convert.serial import convert, scan_and_plan
from tests.tasks.raw_shards import files_under, sample, uid_of, write_shard

SETTINGS = ConvertSettings(max_samples_per_tar=3, validation_fraction=0.3)

TUTORIAL_FIELDS = {
    "objective": "causal image-conditioned caption generation",
    "assistant_target": "original DataComp caption",
    "loss_mask": "assistant tokens only; applied by the selected ChatML VLM collator",
    "split_identity": "DataComp uid",
    "split_hash": "first 64 bits of SHA-256, big endian",
    "selection_order": "lexically sorted raw tar filename, then tar member order",
}


@pytest.fixture
def raw(tmp_path):
    for shard in range(2):
        write_shard(tmp_path / "raw", shard, [sample(f"{shard}{n}", 10 * shard + n) for n in range(6)])
    return tmp_path / "raw"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def refused(raw, out, settings, message):
    """Check that the conversion is rejected with this message, and that the folder does not change by a byte."""
    before = files_under(out)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    with pytest.raises(PlanError, match=message):
        convert(raw, out, settings)
    assert files_under(out) == before
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == times


@pytest.mark.parametrize("name", ["notes.txt", "train-shard-000000.tar", ".hidden"])
def test_a_folder_with_foreign_files_is_refused(raw, out, name):
    out.mkdir()
    (out / name).write_text("mine")
    refused(raw, out, SETTINGS, "not of a conversion by this tool")


def test_a_dataset_whose_plan_was_deleted_goes_on_by_its_manifest(raw, out):
    manifest = convert(raw, out, SETTINGS)
    shutil.rmtree(out / ".prepare")
    other = SETTINGS.model_copy(update={"prompt": "Another."})
    tars = {path: path.read_bytes() for path in out.glob("*.tar")}
    with pytest.raises(PlanError, match="belongs to another plan"):
        convert(raw, out, other)
    assert {path: path.read_bytes() for path in out.glob("*.tar")} == tars
    shutil.rmtree(out / ".prepare")
    assert convert(raw, out, SETTINGS) == manifest


def test_tars_whose_plan_and_manifest_were_deleted_are_refused(raw, out):
    """Reject them, since the old tars would lie among the new ones."""
    convert(raw, out, SETTINGS)
    (out / ".prepare" / "plan.json").unlink()
    (out / "manifest.json").unlink()
    refused(raw, out, SETTINGS, "not of a conversion by this tool")


def test_an_empty_folder_is_used(raw, out):
    out.mkdir()
    assert convert(raw, out, SETTINGS)["accepted"]


def test_a_file_in_the_place_of_the_folder_is_refused(raw, out):
    out.write_text("mine")
    with pytest.raises(PlanError, match="is not a folder"):
        convert(raw, out, SETTINGS)
    assert out.read_text() == "mine"


@pytest.mark.parametrize("where", [".", "sub/folder"])
def test_the_folder_of_the_raw_shards_is_refused(raw, where):
    refused(raw, raw / where, SETTINGS, "lies in the folder of the raw shards")


def test_a_link_to_the_folder_of_the_raw_shards_is_refused(raw, out):
    out.symlink_to(raw)
    refused(raw, out, SETTINGS, "lies in the folder of the raw shards")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prompt", "Another."),
        ("max_samples_per_tar", 4),
        ("validation_fraction", 0.4),
        ("maximum_samples", 5),
        ("source_dataset", "other/data"),
        ("source_revision", "0" * 40),
    ],
)
def test_another_setting_is_refused_by_name(raw, out, name, value):
    convert(raw, out, SETTINGS)
    refused(raw, out, SETTINGS.model_copy(update={name: value}), f"belongs to another plan: {name} is {value!r}")


def test_another_exclusion_list_is_refused_and_the_same_one_elsewhere_is_not(raw, out, tmp_path):
    for name, uids in (("one", "1\n2"), ("same", "\n2\r\n1\n\n"), ("other", "1")):
        text = "\n".join(uid_of(int(line)) if line.strip() else line for line in uids.split("\n"))
        (tmp_path / name).write_text(text)
    one, same, other = (SETTINGS.model_copy(update={"exclude_uids": tmp_path / n}) for n in ("one", "same", "other"))
    manifest = convert(raw, out, one)
    assert convert(raw, out, same) == manifest
    refused(raw, out, other, "excluded_uids_sha256")
    refused(raw, out, SETTINGS, "excluded_uids_sha256 is None")


def test_other_raw_bytes_are_refused_by_the_shards_name(raw, out):
    convert(raw, out, SETTINGS)
    write_shard(raw, 1, [sample(f"1{n}", 10 + n, "other") for n in range(6)])
    refused(raw, out, SETTINGS, r"the raw shard 00000001\.tar is not the 00000001\.tar that was converted")


def test_a_shard_that_is_gone_and_one_that_is_new_are_refused_by_name(raw, out):
    convert(raw, out, SETTINGS)
    (raw / "00000001.tar").rename(raw / "00000002.tar")
    refused(raw, out, SETTINGS, r"the raw shard 00000002\.tar is not the 00000001\.tar that was converted")
    (raw / "00000002.tar").unlink()
    refused(raw, out, SETTINGS, r"the raw shard 00000001\.tar is gone")


def test_a_new_shard_is_refused_if_all_were_taken_and_does_not_matter_if_not(raw, out, tmp_path):
    convert(raw, out, SETTINGS)
    some = SETTINGS.model_copy(update={"maximum_samples": 7})
    convert(raw, tmp_path / "some", some)
    write_shard(raw, 2, [sample("20", 20)])
    refused(raw, out, SETTINGS, r"the raw shard 00000002\.tar is new")
    assert convert(raw, tmp_path / "some", some)["source"]["raw_shard_count_available"] == 3


@pytest.mark.parametrize("rubbish", [b"", b"{}", b"[]", b"{", b"null"])
def test_a_plan_that_cannot_be_read_is_refused(raw, out, rubbish):
    convert(raw, out, SETTINGS)
    (out / ".prepare" / "plan.json").write_bytes(rubbish)
    refused(raw, out, SETTINGS, r"plan\.json is not a plan that this version can read")


def test_a_plan_of_another_contract_is_refused(raw, out):
    convert(raw, out, SETTINGS)
    path = out / ".prepare" / "plan.json"
    path.write_text(path.read_text().replace('"contract_version": 1', '"contract_version": 0'))
    refused(raw, out, SETTINGS, "contract version 0")


def test_a_folder_that_was_only_scanned_may_be_converted_with_other_settings(raw, out, tmp_path):
    for job in Conversion(raw, out, None, SETTINGS).scan_jobs():
        scan_shard(job)
    other = SETTINGS.model_copy(update={"prompt": "Another."})
    assert convert(raw, out, other) == convert(raw, tmp_path / "fresh", other)


def test_another_gate_rewrites_the_manifest_and_nothing_else(raw, out):
    first = convert(raw, out, SETTINGS)
    before = files_under(out)
    second = convert(raw, out, SETTINGS.model_copy(update={"minimum_train_samples": 1000}))
    after = files_under(out)
    assert (first["accepted"], second["accepted"]) == (True, False)
    assert {name for name in before if before[name] != after[name]} == {"manifest.json"}
    assert before.keys() == after.keys()
    convert(raw, out, SETTINGS)
    assert files_under(out) == before


def test_too_few_train_samples_leave_a_manifest_and_all_tars(raw, out):
    manifest = convert(raw, out, SETTINGS.model_copy(update={"minimum_train_samples": 13}))
    assert manifest["accepted"] is False and manifest["minimum_train_samples"] == 13
    assert {tar["filename"] for tar in manifest["output_shards"]} == {path.name for path in out.glob("*.tar")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"0" * 31, "line 1: '0000000000000000000000000000000' is not a uid"),
        (b"\n" + b"A" * 32, "line 2"),
        (b"# comment", "line 1"),
        (b"\xff\xfe", "cannot be read"),
        (None, "cannot be read"),
        ("folder", "cannot be read"),
    ],
)
def test_an_exclusion_list_that_is_none_is_refused_before_anything_is_written(raw, out, tmp_path, text, message):
    path = tmp_path / "excluded"
    if text == "folder":
        path.mkdir()
    elif text is not None:
        path.write_bytes(text)
    with pytest.raises(SettingsError, match=message) as error:
        convert(raw, out, SETTINGS.model_copy(update={"exclude_uids": path}))
    assert "exclude_uids" in str(error.value) and str(path) in str(error.value)
    assert not out.exists()


def test_leftovers_of_a_killed_run_are_removed(raw, out):
    convert(raw, out, SETTINGS)
    before = files_under(out)
    for place in (".", ".prepare", ".prepare/staging", ".prepare/scan", ".prepare/index/fingerprints"):
        (out / place / ".file.0123.partial").write_bytes(b"half")
    convert(raw, out, SETTINGS)
    assert files_under(out) == before


def test_the_source_and_the_audit_are_only_read(raw, out, tmp_path):
    for shard in ("00000000", "00000001"):
        audit_shard(AuditJob(shards_dir=raw, audit_dir=tmp_path / "audit", shard=shard))
    before = files_under(tmp_path)
    folders = [raw, tmp_path / "audit", tmp_path / "audit" / "fingerprints"]
    times = [folder.stat().st_mtime_ns for folder in folders]
    for folder in folders:
        folder.chmod(0o555)
    try:
        convert(raw, out, SETTINGS, tmp_path / "audit")
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert files_under(tmp_path, but=["out/"]) == before
    assert [folder.stat().st_mtime_ns for folder in folders] == times
    assert not list((out / ".prepare" / "index").rglob("*"))


def test_shards_without_stats_or_parquet_among_foreign_files_are_converted(raw, out):
    for name in ("notes.json", "00000005_stats.json", "00000000.parquet", "x.tar.gz"):
        (raw / name).write_bytes(os.urandom(10))
    assert convert(raw, out, SETTINGS)["counts"]["input_samples"] == 12


def test_the_order_of_files_in_a_folder_does_not_matter(tmp_path, out):
    numbers = list(range(6))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        write_shard(tmp_path / "raw", number, [sample(f"{number}", number)])
    conversion = Conversion(tmp_path / "raw", out, None, SETTINGS)
    plan = scan_and_plan(conversion)
    assert [shard.shard for shard in plan.shards] == [f"{number:08d}.tar" for number in range(6)]


def test_manifest_of_an_earlier_version_gets_the_new_keys_and_the_tars_stay(raw, out):
    manifest = convert(raw, out, SETTINGS)
    earlier = {key: value for key, value in manifest.items() if key != "oddities"}
    earlier["adaptation"] = {k: v for k, v in manifest["adaptation"].items() if k not in TUTORIAL_FIELDS}
    (out / "manifest.json").write_text(json.dumps(earlier))
    tars = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.glob("*.tar")}
    assert convert(raw, out, SETTINGS) == manifest == json.loads((out / "manifest.json").read_bytes())
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.glob("*.tar")} == tars
    assert {key: manifest["adaptation"][key] for key in TUTORIAL_FIELDS} == TUTORIAL_FIELDS
