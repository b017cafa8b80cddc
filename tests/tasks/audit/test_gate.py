"""All shards are audited, all findings reported, and the totals compared with the gate."""

import pytest

from tasks.audit.gate import add_up, check_gate, shard_names
from tasks.audit.models import AuditJob, Finding
from tasks.audit.shard import audit_shard
from tasks.contracts.errors import GateError
from tasks.contracts.settings import GateSettings
from tests.tasks.raw_shards import sample, write_shard, write_stats


@pytest.fixture
def shards(tmp_path):
    """Four shards: sound, without stats, truncated, sound."""
    folder = tmp_path / "shards"
    for number in range(4):
        write_shard(folder, number, [sample(f"{number}{key}", key) for key in range(3)])
        write_stats(folder, number, 3)
    (folder / "00000001_stats.json").unlink()
    cut = folder / "00000002.tar"
    cut.write_bytes(cut.read_bytes()[:4000])
    return folder


def audit_all(shards, tmp_path):
    names, unexpected = shard_names(shards)
    audits = [audit_shard(AuditJob(shards_dir=shards, audit_dir=tmp_path / "audit", shard=name)) for name in names]
    return audits, unexpected


def test_every_shard_is_audited_and_every_finding_told(shards, tmp_path):
    (shards / "notes.txt").touch()
    audits, unexpected = audit_all(shards, tmp_path)
    findings = [*unexpected, *(finding for audit in audits for finding in audit.findings)]
    totals = add_up(audits, unexpected)
    assert totals.findings == len(findings) == 5
    with pytest.raises(GateError) as error:
        check_gate(totals, GateSettings(), findings)
    for part in ("notes.txt", "00000001_stats.json is missing", "00000002, key", "no", "count 3 samples"):
        assert part in str(error.value)


def test_totals_add_up_whatever_the_order(shards, tmp_path):
    audits, unexpected = audit_all(shards, tmp_path)
    totals = add_up(audits, unexpected)
    assert add_up(reversed(audits), unexpected) == totals
    # The shard without stats is not complete, but its three samples are whole; the truncated one has none left.
    assert (totals.shards, totals.attempts, totals.successes) == (3, 18, 9)
    assert (totals.failed_to_download, totals.failed_to_resize) == (6, 3)
    assert totals.failure_reasons == {"HTTP Error 404: Not Found": 6, "Image decoding error": 3}
    assert totals.samples == 9
    assert totals.tar_bytes == sum(path.stat().st_size for path in shards.glob("*.tar"))


def sound(tmp_path, count=2):
    folder = tmp_path / "sound"
    for number in range(count):
        write_shard(folder, number, [sample(f"{number}{key}", key) for key in range(3)])
        write_stats(folder, number, 3)
    return add_up(audit_all(folder, tmp_path)[0])


def test_sound_shards_pass_an_open_gate_and_one_that_fits(tmp_path):
    totals = sound(tmp_path)
    check_gate(totals, GateSettings(), [])
    check_gate(totals, GateSettings(expected_shards=2, expected_attempts=12, minimum_successes=6), [])
    check_gate(totals, GateSettings(minimum_successes=0), [])


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"expected_shards": 3}, "expected_shards is 3, but 2 shards are complete"),
        ({"expected_shards": 0}, "expected_shards is 0, but 2 shards are complete"),
        ({"expected_attempts": 11}, "expected_attempts is 11, but the stats add up to 12"),
        ({"minimum_successes": 7}, "minimum_successes is 7, but there are 6"),
    ],
)
def test_a_missed_gate_names_the_setting_and_both_numbers(tmp_path, gate, message):
    with pytest.raises(GateError, match=message):
        check_gate(sound(tmp_path), GateSettings(**gate), [])


def test_every_miss_is_told_at_once(tmp_path):
    gate = GateSettings(expected_shards=3, expected_attempts=11, minimum_successes=7)
    with pytest.raises(GateError) as error:
        check_gate(sound(tmp_path), gate, [])
    assert all(name in str(error.value) for name in ("expected_shards", "expected_attempts", "minimum_successes"))


def test_very_many_findings_are_counted_not_listed(tmp_path):
    findings = [Finding(shard=f"{number:08d}", kind="x", message="is odd") for number in range(500)]
    with pytest.raises(GateError, match="and 480 more findings") as error:
        check_gate(sound(tmp_path), GateSettings(), findings)
    assert len(str(error.value).splitlines()) < 30
