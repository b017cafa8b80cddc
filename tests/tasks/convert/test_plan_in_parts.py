"""A plan whose uids are searched in parts equals the plan that is made in memory, byte for byte."""

import random

import numpy as np
import pyarrow as pa
import pytest

from tasks.contracts.settings import ConvertSettings
from tasks.convert import uids
from tasks.convert.conversion import Conversion
from tasks.convert.uids import later_copies, uid_numbers
from tests.tasks.convert.defects import random_settings, random_shards
from tests.tasks.convert.serial import scan_and_plan, write
from tests.tasks.raw_shards import files_under, picture, sample, uid_of, write_shard

LAST = 16**32 - 1


def plan_of(raw, out, settings, in_memory):
    """Return the plan's identity, and all files of the conversion except fingerprint notes, which contain times."""
    conversion = Conversion(raw, out, None, settings, plan_in_memory=10**9 if in_memory else 0)
    plan = scan_and_plan(conversion)
    write(conversion, plan)
    conversion.finish(plan)
    assert not (out / ".prepare" / "uids").exists()
    return plan.identity, files_under(out, but=["fingerprints"])


def compare(tmp_path, monkeypatch, settings):
    whole = plan_of(tmp_path / "raw", tmp_path / "whole", settings, in_memory=True)
    for part_rows, buffer_rows in ((1, 1), (3, 7), (10**6, 10**6)):
        monkeypatch.setattr(uids, "PART_ROWS", part_rows)
        monkeypatch.setattr(uids, "_BUFFER_ROWS", buffer_rows)
        parts = plan_of(tmp_path / "raw", tmp_path / f"parts of {part_rows}", settings, in_memory=False)
        assert parts == whole
    return whole


@pytest.mark.parametrize("seed", range(3))
def test_random_shards_with_every_defect(tmp_path, monkeypatch, seed):
    random_shards(tmp_path / "raw", seed)
    compare(tmp_path, monkeypatch, ConvertSettings(**random_settings(seed) | {"maximum_samples": None}))


@pytest.mark.parametrize("maximum", [None, 3, 4, 5])
def test_copies_across_shards_after_a_rejected_first_one_and_at_the_cut_off(tmp_path, monkeypatch, maximum):
    """Write first copies that are rejected (shard 0), good ones (1) and later ones (2); some uids share a half."""
    broken = picture()[:40]
    write_shard(tmp_path / "raw", 0, [sample("a", 7, jpg=broken), sample("b", 0, " "), sample("c", LAST)])
    write_shard(tmp_path / "raw", 1, [sample("d", 7), sample("e", 0), sample("f", LAST), sample("g", 7 + 2**64)])
    write_shard(tmp_path / "raw", 2, [sample("h", 7), sample("i", 0, " "), sample("j", 7 + 2**65), sample("k", 8)])
    excluded = tmp_path / "excluded"
    excluded.write_text(uid_of(8) + "\n" + uid_of(7 + 2**66) + "\n")
    settings = ConvertSettings(maximum_samples=maximum, max_samples_per_tar=2, exclude_uids=excluded)
    _, files = compare(tmp_path, monkeypatch, settings)
    manifest = files["manifest.json"].decode()
    assert ('"duplicate_uid": 3' in manifest) == (maximum is None or maximum == 5)


def test_later_copies_are_those_of_the_definition():
    rng = random.Random(5)
    for _ in range(200):
        values = [rng.choice([0, 1, 2**63, 2**64, 2**64 + 1, LAST]) for _ in range(rng.randrange(12))]
        candidate = [rng.random() < 0.5 for _ in values]
        expected = [n for n, v in enumerate(values) if any(candidate[m] for m in range(n) if values[m] == v)]
        high, low = uid_numbers(pa.chunked_array([[uid_of(value) for value in values]], pa.string()))
        assert later_copies(high, low, np.array(candidate, dtype=bool)).tolist() == expected
