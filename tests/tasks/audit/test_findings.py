"""Every fault of a raw shard is a separate finding, with shard, key and offset."""

import json
import shutil
import tarfile

import pytest

from tasks.audit.gate import shard_names
from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.contracts.errors import ShardError
from tests.golden import FOLDER, copy_shards
from tests.tasks.raw_shards import files_under, sample, tar_bytes, without_end, write_shard, write_stats


@pytest.fixture
def shards(tmp_path):
    return tmp_path / "shards"


@pytest.fixture
def audit(tmp_path, shards):
    """Return a function that audits one shard."""
    return lambda number=0: audit_shard(
        AuditJob(shards_dir=shards, audit_dir=tmp_path / "audit", shard=f"{number:08d}")
    )


@pytest.fixture
def kinds(audit):
    """Return a function that lists the kinds of the findings of a shard."""
    return lambda number=0: [finding.kind for finding in audit(number).findings]


def keys(count):
    return [sample(f"{number:09d}", number) for number in range(count)]


@pytest.mark.parametrize("number", range(3))
def test_shards_of_the_real_downloader_have_no_findings(tmp_path, number):
    copy_shards("golden", tmp_path / "shards")
    job = AuditJob(shards_dir=tmp_path / "shards", audit_dir=tmp_path / "audit", shard=f"{number:08d}")
    found = audit_shard(job)
    stats = json.loads((FOLDER / "raw" / f"{number:08d}_stats.json").read_text())
    assert (found.findings, found.samples, found.stats.reasons) == ((), stats["successes"], stats["status_dict"])


def test_a_sound_shard_has_no_findings(shards, audit):
    path = write_shard(shards, 0, keys(4))
    write_stats(shards, 0, 4)
    found = audit()
    assert (found.findings, found.samples, found.tar_bytes) == ((), 4, path.stat().st_size)


def test_an_empty_shard_whose_downloads_all_failed_has_no_findings(shards, kinds):
    write_shard(shards, 0, [])
    write_stats(shards, 0, 0)
    assert kinds() == []


def test_a_tar_without_stats_is_an_interrupted_download(shards, audit):
    write_shard(shards, 0, keys(2))
    (finding,) = audit().findings
    assert finding.kind == "missing_stats"
    assert "00000000_stats.json is missing" in str(finding) and "resume" in str(finding)


def test_stats_without_a_tar_are_found(shards, audit):
    shards.mkdir()
    write_stats(shards, 0, 2)
    (finding,) = audit().findings
    assert (finding.kind, finding.shard) == ("missing_tar", "00000000")


def test_only_a_parquet_file_is_both_missing(shards, kinds):
    shards.mkdir()
    (shards / "00000000.parquet").touch()
    assert shard_names(shards) == (["00000000"], [])
    assert kinds() == ["missing_stats", "missing_tar"]


@pytest.mark.parametrize("raw", [b"", b"<html>busy</html>" * 100], ids=["zero bytes", "html"])
def test_what_is_no_tar_is_unreadable(shards, audit, raw):
    shards.mkdir()
    (shards / "00000000.tar").write_bytes(raw)
    write_stats(shards, 0, 2)
    found = audit()
    assert [finding.kind for finding in found.findings] == ["unreadable", "no_end_of_archive", "count_mismatch"]
    assert "00000000.tar" in found.findings[0].message
    assert found.samples == 0


def test_a_cut_tar_is_found_with_member_and_offset(shards, audit):
    path = write_shard(shards, 0, keys(3))
    raw = path.read_bytes()
    start = raw.index(b"000000001.jpg")
    path.write_bytes(raw[: start + 600])
    write_stats(shards, 0, 3)
    found = audit().findings
    assert [finding.kind for finding in found] == ["unreadable", "no_end_of_archive", "count_mismatch"]
    assert (found[0].key, found[0].offset) == ("000000001.jpg", start)
    assert f"byte {start}" in str(found[0])


def test_a_tar_only_without_its_end_of_archive_is_found(shards, kinds):
    path = write_shard(shards, 0, keys(1))
    path.write_bytes(without_end(path.read_bytes()))
    write_stats(shards, 0, 1)
    assert kinds() == ["no_end_of_archive"]


def test_data_after_the_end_of_archive_is_found(shards, kinds):
    path = write_shard(shards, 0, keys(1))
    path.write_bytes(path.read_bytes() + tar_bytes(sample("b")))
    write_stats(shards, 0, 1)
    assert kinds() == ["trailing_data"]


BAD_STATS = {
    "cut": b'{"count": 5, "succ',
    "empty": b"",
    "list": b"[]",
    "binary": b"\x00\xff\xfe",
    "nested": b"[" * 100_000,
    "html": b"<html>",
}


@pytest.mark.parametrize("raw", BAD_STATS.values(), ids=BAD_STATS)
def test_stats_that_cannot_be_read_are_found_and_the_tar_is_audited_all_the_same(shards, audit, raw):
    write_shard(shards, 0, [*keys(2), [("c.jpg", b"")]])
    (shards / "00000000_stats.json").write_bytes(raw)
    found = audit()
    assert [finding.kind for finding in found.findings] == ["bad_stats", "missing_member"]
    assert "00000000_stats.json: the stats are not" in found.findings[0].message
    assert found.samples == 2


@pytest.mark.parametrize("name", ["count", "successes", "failed_to_download", "failed_to_resize"])
@pytest.mark.parametrize("value", [..., "2", None, True, 2.0, -1, [2]], ids=repr)
def test_a_count_that_is_no_whole_number_is_found_by_name(shards, audit, name, value):
    write_shard(shards, 0, keys(2))
    write_stats(shards, 0, 2, **{name: value})
    (finding,) = audit().findings
    assert finding.kind == "bad_stats"
    assert f"the stats' {name} is" in finding.message and "not a whole number" in finding.message


@pytest.mark.parametrize("reasons", [[], {"success": "2"}, {"success": True}, None, "success"], ids=repr)
def test_reasons_that_are_no_counts_are_found(shards, kinds, reasons):
    write_shard(shards, 0, keys(2))
    write_stats(shards, 0, 2, status_dict=reasons)
    assert kinds() == ["bad_stats"]


@pytest.mark.parametrize(
    "changes", [{"count": 9}, {"status_dict": {"success": 2, "x": 1}}, {"status_dict": {"success": 1, "x": 4}}]
)
def test_stats_that_contradict_themselves_are_found(shards, kinds, changes):
    write_shard(shards, 0, keys(2))
    write_stats(shards, 0, 2, **changes)
    assert set(kinds()) == {"contradictory_stats"}


@pytest.mark.parametrize("promised", [1, 3])
def test_more_or_fewer_successes_than_samples_are_found(shards, audit, promised):
    write_shard(shards, 0, keys(2))
    write_stats(shards, 0, promised)
    (finding,) = audit().findings
    assert finding.kind == "count_mismatch"
    assert f"count {promised} samples, but the tar holds 2" in finding.message


def test_stats_copied_from_another_shard_are_found_by_their_count(shards, kinds):
    write_shard(shards, 0, keys(2))
    write_shard(shards, 1, keys(3))
    shutil.copy(write_stats(shards, 1, 3), shards / "00000000_stats.json")
    assert (kinds(0), kinds(1)) == (["count_mismatch"], [])


def test_a_key_whose_members_are_not_in_one_place_is_found(shards, audit):
    first, second = keys(2)
    write_shard(shards, 0, [first[:2], second, first[2:]])
    write_stats(shards, 0, 2)
    found = audit().findings
    assert [(f.kind, f.key) for f in found] == [
        ("missing_member", "000000000"),
        ("duplicate_key", "000000000"),
        ("missing_member", "000000000"),
        ("count_mismatch", None),
    ]
    assert found[1].offset > found[0].offset


def test_a_sample_that_is_there_twice_is_found(shards, kinds):
    first, second = keys(2)
    write_shard(shards, 0, [first, second, first])
    write_stats(shards, 0, 3)
    assert kinds() == ["duplicate_key"]


def test_a_member_that_is_there_twice_is_found(shards, audit):
    write_shard(shards, 0, [[*keys(1)[0], ("000000000.jpg", b"again")]])
    write_stats(shards, 0, 1)
    (finding,) = audit().findings
    assert (finding.kind, finding.key) == ("unreadable", "000000000.jpg")
    assert "twice" in finding.message


@pytest.mark.parametrize("name", ["jpg", "json", "txt"])
def test_a_missing_member_is_found_with_key_and_offset(shards, audit, name):
    samples = keys(2)
    samples[1] = [member for member in samples[1] if not member[0].endswith(name)]
    write_shard(shards, 0, samples)
    write_stats(shards, 0, 1)
    (finding,) = audit().findings
    assert (finding.kind, finding.key, finding.message) == ("missing_member", "000000001", f"the sample lacks {name}")
    assert finding.offset > 0


@pytest.mark.parametrize("name", ["webp", "JPG", "", "\udcff"])
def test_an_unexpected_member_is_found(shards, kinds, name):
    write_shard(shards, 0, [[*keys(1)[0], (f"000000000.{name}", b"")]])
    write_stats(shards, 0, 0)
    assert kinds() == ["unexpected_member"]


def test_a_file_without_extension_is_found(shards, audit):
    write_shard(shards, 0, [*keys(1), [("README", b"")]])
    write_stats(shards, 0, 1)
    (finding,) = audit().findings
    assert (finding.kind, finding.key) == ("unreadable", "README")


def test_folders_and_links_in_a_tar_are_found(shards, kinds):
    folder = tarfile.TarInfo("folder")
    folder.type = tarfile.DIRTYPE
    path = write_shard(shards, 0, keys(1))
    path.write_bytes(folder.tobuf() + path.read_bytes())
    write_stats(shards, 0, 1)
    assert kinds() == ["not_a_file"]


def test_names_and_reasons_that_are_no_unicode_can_be_reported_and_read_back(shards, audit):
    write_shard(shards, 0, [[("caf\udce9.jpg", b"")], [("\udcff", b"")]])
    (shards / "00000000_stats.json").write_text(
        '{"count": 1, "successes": 0, "failed_to_download": 1, "failed_to_resize": 0, "status_dict": {"\\ud800": 1}}'
    )
    first = audit()
    assert {finding.key for finding in first.findings} == {"caf\\udce9", "\\udcff"}
    assert audit() == first


def test_unexpected_files_are_findings_except_the_downloaders_work_list(shards):
    write_shard(shards, 0, keys(1))
    write_stats(shards, 0, 1)
    (shards / "_tmp").mkdir()
    assert shard_names(shards) == (["00000000"], [])
    for name in ("notes.json", "00000001.tar.bak", "x.tar", "report_stats.json", "\u0661.tar"):
        (shards / name).touch()
    (shards / "00000002.tar").mkdir()
    names, findings = shard_names(shards)
    assert names == ["00000000"]
    assert [finding.kind for finding in findings] == ["foreign_file"] * 6
    assert "00000001.tar.bak does not belong" in findings[0].message


def test_a_folder_without_shards_is_refused(tmp_path):
    with pytest.raises(ShardError, match="holds no shards"):
        shard_names(tmp_path)
    with pytest.raises(ShardError, match="is not a folder"):
        shard_names(tmp_path / "nowhere")


def test_the_shards_folder_is_only_read(shards, audit):
    write_shard(shards, 0, keys(2))
    write_stats(shards, 0, 2)
    before = files_under(shards)
    shards.chmod(0o555)
    try:
        audit()
    finally:
        shards.chmod(0o755)
    assert files_under(shards) == before
