"""Audit receipts: finished work is skipped, changed shards are audited again."""

import json
import os

import pytest

from tasks.audit import shard as module
from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.contracts.errors import TransientError
from tasks.io.raw_tar import read_tar
from tasks.io.shard_index import ShardIndexes
from tests.tasks.raw_shards import files_under, sample, tar_bytes, write_shard, write_stats


@pytest.fixture
def job(tmp_path):
    shards = tmp_path / "shards"
    write_shard(shards, 0, [sample("a", 1), sample("b", 2)])
    write_stats(shards, 0, 2)
    return AuditJob(shards_dir=shards, audit_dir=tmp_path / "audit", shard="00000000")


@pytest.fixture
def audited(monkeypatch):
    """The shards that are really audited."""
    names, really = [], module._audit
    monkeypatch.setattr(module, "_audit", lambda job: names.append(job.shard) or really(job))
    return names


def changed(path, old, new):
    """Change bytes of a file and restore its times."""
    times = path.stat()
    data = path.read_bytes()
    path.write_bytes(data.replace(old, new, 1))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_finished_audit_is_not_done_again(job, audited):
    first = audit_shard(job)
    assert job.finished() is not None
    assert audit_shard(job) == first
    assert audited == ["00000000"]


def test_a_byte_changed_in_the_tar_under_the_old_mtime_is_audited_again(job, audited):
    audit_shard(job)
    changed(job.tar, b"example.org", b"Example.org")
    assert job.finished() is None
    audit_shard(job)
    assert audited == ["00000000"] * 2


def test_a_number_changed_in_the_stats_under_the_old_mtime_is_audited_again(job, audited):
    audit_shard(job)
    changed(job.stats_file, b'"successes": 2', b'"successes": 1')
    assert [finding.kind for finding in audit_shard(job).findings] != []
    assert audited == ["00000000"] * 2


def test_a_touched_shard_is_not_audited_again(job, audited):
    audit_shard(job)
    os.utime(job.tar)
    audit_shard(job)
    assert audited == ["00000000"]


def test_a_completed_download_is_audited_again(job):
    stats = job.stats_file.read_bytes()
    job.stats_file.unlink()
    assert [finding.kind for finding in audit_shard(job).findings] == ["missing_stats"]
    job.stats_file.write_bytes(stats)
    assert audit_shard(job).findings == ()


@pytest.mark.parametrize("harm", [bytes.upper, lambda data: data[:-1], lambda data: b""], ids=["flip", "cut", "empty"])
def test_a_harmed_index_is_made_again_with_the_same_bytes(job, harm):
    audit_shard(job)
    path = job.audit_dir / "00000000.index.parquet"
    whole = path.read_bytes()
    path.write_bytes(harm(whole))
    assert job.finished() is None
    audit_shard(job)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("counts", [{}, {"shard": 1}, {"findings": "none"}, None], ids=repr)
def test_a_receipt_of_the_wrong_kind_is_replaced(job, counts):
    first = audit_shard(job)
    receipt = json.loads(job.receipt_path.read_bytes())
    job.receipt_path.write_text(json.dumps(receipt | {"counts": counts}))
    assert job.finished() is None
    assert audit_shard(job) == first


def test_a_shard_that_changes_while_it_is_audited_gets_no_receipt(job, monkeypatch):
    really = module._audit

    def disturbed(job):
        audit = really(job)
        job.tar.write_bytes(tar_bytes(sample("a", 1)))
        return audit

    monkeypatch.setattr(module, "_audit", disturbed)
    with pytest.raises(TransientError, match="shard 00000000 changed while it was audited"):
        audit_shard(job)
    assert not job.receipt_path.exists()
    monkeypatch.undo()
    assert audit_shard(job).samples == 1


def test_the_index_is_written_for_a_damaged_shard_too(job):
    job.tar.write_bytes(job.tar.read_bytes()[:-9000])
    audit_shard(job)
    contents = ShardIndexes(job.audit_dir).contents(job.tar)
    assert contents == read_tar(job.tar) and contents.troubles


def test_receipts_are_the_same_bytes_in_another_folder_on_another_day(job, tmp_path):
    audit_shard(job)
    other = write_shard(tmp_path / "elsewhere" / "shards", 0, [sample("a", 1), sample("b", 2)])
    write_stats(other.parent, 0, 2)
    os.utime(other, (1, 1))
    audit_shard(AuditJob(shards_dir=other.parent, audit_dir=tmp_path / "elsewhere" / "audit", shard="00000000"))
    one, two = (files_under(path / "audit", but=["fingerprints"]) for path in (tmp_path, tmp_path / "elsewhere"))
    assert one == two
    assert str(tmp_path).encode() not in b"".join(one.values())


def test_the_cache_key_holds_no_path_and_changes_with_the_metadata(job, tmp_path):
    moved = job.model_copy(update={"audit_dir": tmp_path / "other"})
    assert moved.cache_parts() == job.cache_parts()
    assert job.model_copy(update={"metadata_sha256": "1"}).cache_parts() != job.cache_parts()
