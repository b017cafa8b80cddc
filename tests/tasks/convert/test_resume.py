"""A conversion resumes: damaged files are written again with the same bytes, sound ones stay untouched."""

import contextlib
import json
import os
import shutil

import pytest

from tasks.contracts.errors import PlanError, ShardError, TransientError
from tasks.contracts.settings import ConvertSettings
from tasks.convert import conversion as module
from tasks.convert import output_tar, scan, write
from tasks.convert.conversion import Conversion
from tasks.convert.output_tar import OutputTar
from tasks.convert.write import write_tar
from tasks.io import fingerprints
from tasks.io.files import sha256_of
from tests.tasks.convert.serial import convert, scan_and_plan
from tests.tasks.convert.serial import write as write_all
from tests.tasks.raw_shards import files_under, sample, write_shard

SETTINGS = ConvertSettings(max_samples_per_tar=3, validation_fraction=0.3)


def fill(folder):
    """Write three raw shards of six samples."""
    for shard in range(3):
        write_shard(folder, shard, [sample(f"{shard}{n}", 10 * shard + n) for n in range(6)])
    return folder


@pytest.fixture
def raw(tmp_path):
    return fill(tmp_path / "raw")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def work(monkeypatch):
    """The shards and tars that are really scanned and written, by name."""
    done = []
    row, members = scan._summary, write._write_members
    monkeypatch.setattr(scan, "_summary", lambda job, *rest: done.append(job.tar.name) or row(job, *rest))
    monkeypatch.setattr(
        write, "_write_members", lambda f, job, *rest: done.append(job.filename) or members(f, job, *rest)
    )
    return done


def content(out):
    """Return all files except the fingerprint notes, whose times change with each writing."""
    return files_under(out, but=["fingerprints"])


def test_a_finished_conversion_has_nothing_to_do(raw, out, work):
    first = convert(raw, out, SETTINGS)
    before, done = files_under(out), len(work)
    assert convert(raw, out, SETTINGS) == first
    assert (files_under(out), len(work)) == (before, done)


@pytest.fixture
def plans(monkeypatch):
    """The plans that are really made."""
    made = []
    make = module.make_plan
    monkeypatch.setattr(module, "make_plan", lambda *given: made.append(make(*given)) or made[-1])
    return made


@pytest.mark.parametrize("maximum", [None, 9])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_plan_is_made_once_however_many_shards_are_scanned_beyond_it(raw, out, plans, maximum, workers):
    settings = SETTINGS.model_copy(update={"maximum_samples": maximum})
    first = convert(raw, out, settings, workers=workers)
    assert [convert(raw, out, settings, workers=again) for again in (1, 3)] == [first, first]
    assert len(plans) == 1


@pytest.mark.parametrize(
    "change", [{"outputs": []}, {"stage_version": 0}, {"inputs": {"opened": 2}}, {"inputs": {"scans": ""}}]
)
def test_a_plan_whose_receipt_tells_of_other_work_is_made_again(raw, out, plans, change):
    convert(raw, out, SETTINGS)
    before, path = content(out), out / ".prepare" / "plan-receipt.json"
    receipt = json.loads(path.read_bytes())
    path.write_text(json.dumps(receipt | change | {"inputs": receipt["inputs"] | change.get("inputs", {})}))
    convert(raw, out, SETTINGS)
    assert (content(out), len(plans)) == (before, 2)


@pytest.mark.parametrize("verify", ["changed", "full"])
@pytest.mark.parametrize("harm", ["delete", "cut", "empty", "flip"])
def test_a_harmed_tar_is_written_again_with_the_same_bytes_and_no_other(raw, out, work, harm, verify):
    convert(raw, out, SETTINGS)
    before, path = content(out), out / "train-shard-000001.tar"
    work.clear()
    data, times = path.read_bytes(), path.stat()
    if harm == "delete":
        path.unlink()
    else:
        path.write_bytes({"cut": data[:-512], "empty": b"", "flip": data[:700] + b"?" + data[701:]}[harm])
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    convert(raw, out, SETTINGS, verify=verify)
    assert content(out) == before
    assert work == ["train-shard-000001.tar"]


def test_full_verification_hashes_every_file_once_and_trusts_no_older_note(raw, out, monkeypatch):
    convert(raw, out, SETTINGS)
    before = content(out)
    hashed = []
    monkeypatch.setattr(fingerprints, "sha256_of", lambda path: hashed.append(path.name) or sha256_of(path))
    for note in [*out.glob(".prepare/fingerprints/*.json"), *out.glob(".prepare/index/fingerprints/*.json")]:
        note.write_text(json.dumps(json.loads(note.read_text()) | {"sha256": "0" * 64}))
    conversion = Conversion(raw, out, None, SETTINGS, "full")
    conversion.begin()
    for job in conversion.scan_jobs():
        assert job.cache_parts() and job.finished()
        conversion.scan_ended(job, None)
    plan = conversion.plan()
    assert all(job.finished() for job in conversion.write_jobs(plan))
    conversion.finish(plan)
    assert content(out) == before
    tables = [*out.glob(".prepare/scan/*.parquet"), *out.glob(".prepare/plan/*"), conversion.folder.rejects]
    every = [*raw.glob("*.tar"), *out.glob("*.tar"), *tables, conversion.folder.plan]
    assert sorted(hashed) == sorted(path.name for path in every)


@pytest.mark.parametrize("name", ["plan", "rejects.parquet", "plan.json", "fingerprints", "write"])
@pytest.mark.parametrize("harm", ["delete", "rubbish"])
def test_harmed_files_of_the_conversion_are_made_again(raw, out, name, harm):
    convert(raw, out, SETTINGS)
    before, path = content(out), out / ".prepare" / name
    if path.is_dir():
        for file in (file for file in path.rglob("*") if file.is_file()):
            file.write_bytes(b"PAR1 rubbish PAR1") if harm == "rubbish" else file.unlink()
    elif harm == "delete":
        path.unlink()
    elif name == "plan.json":
        return  # rejected: test_a_plan_that_cannot_be_read_is_refused
    else:
        path.write_bytes(b"rubbish")
    convert(raw, out, SETTINGS)
    assert content(out) == before


@pytest.mark.parametrize("name", ["00000001.parquet", "00000001.json"])
@pytest.mark.parametrize("rubbish", [None, b"", b"rubbish", b"{}", b"[]"])
def test_only_a_shard_whose_scan_was_harmed_is_scanned_again(raw, out, work, name, rubbish):
    convert(raw, out, SETTINGS)
    before, path = content(out), out / ".prepare" / "scan" / name
    work.clear()
    path.unlink() if rubbish is None else path.write_bytes(rubbish)
    convert(raw, out, SETTINGS)
    assert content(out) == before
    assert work == ["00000001.tar"]


@pytest.mark.parametrize("stage", ["scan/00000001.json", "write/train-shard-000001.tar.json"])
@pytest.mark.parametrize(
    "change", [{"counts": {}}, {"counts": {"samples": "many"}}, {"outputs": []}, {"stage_version": 0}, {"inputs": {}}]
)
def test_a_receipt_of_the_wrong_kind_is_made_again(raw, out, stage, change):
    convert(raw, out, SETTINGS)
    before, path = content(out), out / ".prepare" / stage
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))
    convert(raw, out, SETTINGS)
    assert content(out) == before


def test_touched_and_moved_raw_shards_change_nothing(raw, out, tmp_path, work):
    convert(raw, out, SETTINGS)
    before = content(out)
    work.clear()
    shutil.copytree(raw, tmp_path / "moved")
    os.utime(tmp_path / "moved" / "00000001.tar", (1, 1))
    convert(tmp_path / "moved", out, SETTINGS)
    assert (content(out), work) == (before, [])


def test_a_raw_shard_that_changed_between_scan_and_write_is_noticed(raw, out):
    conversion = Conversion(raw, out, None, SETTINGS)
    plan = scan_and_plan(conversion)
    path = raw / "00000001.tar"
    whole, times = path.read_bytes(), path.stat()
    path.write_bytes(whole.replace(b"a caption", b"a CAPTION"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(ShardError, match=r"00000001\.tar, key 1.: the bytes are not those that were scanned"):
        write_all(conversion, plan)
    assert not list((out / ".prepare" / "staging").iterdir())
    with pytest.raises(PlanError, match=r"00000001\.tar.* that was converted"):
        convert(raw, out, SETTINGS)
    path.write_bytes(whole)
    assert convert(raw, out, SETTINGS)["counts"]["train"] == plan.counts.train


def test_a_raw_shard_that_was_cut_between_scan_and_write_is_noticed(raw, out):
    conversion = Conversion(raw, out, None, SETTINGS)
    plan = scan_and_plan(conversion)
    (raw / "00000002.tar").write_bytes((raw / "00000002.tar").read_bytes()[:2000])
    with pytest.raises(ShardError, match=r"00000002\.tar"):
        write_all(conversion, plan)


def test_a_raw_shard_that_changes_while_it_is_scanned_gets_no_receipt(raw, out, monkeypatch):
    summary = scan._summary

    def disturbed(job, *rest):
        write_shard(raw, 0, [sample("other", 5)])
        return summary(job, *rest)

    monkeypatch.setattr(scan, "_summary", disturbed)
    job = next(Conversion(raw, out, None, SETTINGS).scan_jobs())
    with pytest.raises(TransientError, match=r"00000000\.tar changed while it was scanned"):
        scan.scan_shard(job)
    assert job.finished() is None
    monkeypatch.undo()
    assert scan.scan_shard(job).samples == 1


def test_a_job_of_an_older_plan_is_refused(raw, out):
    conversion = Conversion(raw, out, None, SETTINGS)
    plan = scan_and_plan(conversion)
    job = conversion.write_jobs(plan)[0].model_copy(update={"plan_identity": "0" * 64})
    with pytest.raises(PlanError, match="is not the plan that train-shard-000000"):
        write_tar(job)


@pytest.mark.parametrize("harm", ["delete", "cut", "flip"])
def test_a_plan_that_is_harmed_before_its_tars_are_written_is_named_and_made_anew(raw, out, tmp_path, harm):
    conversion = Conversion(raw, out, None, SETTINGS)
    plan = scan_and_plan(conversion)
    path, _ = conversion.folder.samples_of(0)
    data = path.read_bytes()
    if harm == "delete":
        path.unlink()
    else:
        path.write_bytes(data[:-100] if harm == "cut" else data[:80] + bytes([data[80] ^ 1]) + data[81:])
    with pytest.raises(PlanError, match=r"samples-000000\.parquet cannot be read: .*; start the conversion again"):
        write_all(conversion, plan)
    convert(raw, out, SETTINGS)
    convert(raw, tmp_path / "fresh", SETTINGS)
    assert content(out) == content(tmp_path / "fresh")


def test_no_manifest_is_written_while_a_tar_is_missing(raw, out):
    conversion = Conversion(raw, out, None, SETTINGS)
    plan = scan_and_plan(conversion)
    for job in conversion.write_jobs(plan)[1:]:
        write_tar(job)
    with pytest.raises(PlanError, match=r"train-shard-000000\.tar has no valid receipt"):
        conversion.finish(plan)
    assert not (out / "manifest.json").exists()


@pytest.mark.parametrize("fails", [False, True])
def test_the_disk_writes_while_a_tar_is_made_and_its_failure_is_told(raw, out, monkeypatch, tmp_path, fails):
    real, syncs = os.fdatasync, []

    def fdatasync(descriptor):
        syncs.append(descriptor)
        if fails:
            raise OSError(5, "Input/output error")
        real(descriptor)

    conversion = Conversion(raw, out, None, SETTINGS)
    plan = scan_and_plan(conversion)
    monkeypatch.setattr(output_tar, "_BUFFER_BYTES", 1)
    monkeypatch.setattr(output_tar, "_SYNC_BYTES", 1)
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with pytest.raises(OSError, match="Input/output error") if fails else contextlib.nullcontext():
        write_all(conversion, plan)
    assert len(syncs) > 0
    if fails:
        assert not list(out.glob("*.tar")) and not list((out / ".prepare" / "staging").iterdir())
    monkeypatch.undo()
    convert(raw, out, SETTINGS)
    convert(raw, tmp_path / "fresh", SETTINGS)
    assert content(out) == content(tmp_path / "fresh")


def test_a_full_disk_while_writing_leaves_no_tar_and_the_next_run_goes_on(raw, out, monkeypatch, tmp_path):
    conversion = Conversion(raw, out, None, SETTINGS)
    plan = scan_and_plan(conversion)

    def no_space(tar, name, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(OutputTar, "add", no_space)
        with pytest.raises(OSError, match="No space left"):
            write_all(conversion, plan)
    assert not list(out.glob("*.tar")) and not list((out / ".prepare" / "staging").iterdir())
    convert(raw, out, SETTINGS)
    convert(raw, tmp_path / "fresh", SETTINGS)
    assert content(out) == content(tmp_path / "fresh")
