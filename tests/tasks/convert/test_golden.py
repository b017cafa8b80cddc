"""The conversion reproduces an independent serial implementation byte for byte."""

import hashlib

import pytest

from tests.golden import CASES, EXPECTED, copy_shards, settings_of
from tests.tasks.convert.serial import convert


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(("shards", "name"), CASES)
def test_golden_shards_give_the_expected_bytes_and_counts(shards, name, workers, tmp_path):
    expected = EXPECTED[shards][name]
    manifest = convert(copy_shards(shards, tmp_path / "raw"), tmp_path / "out", settings_of(expected), workers=workers)
    for key in ("accepted", "counts", "output_shards"):
        assert manifest[key] == expected[key]
    assert manifest["source"]["raw_shards_opened"] == expected["raw_shards_opened"]
    for tar in manifest["output_shards"]:
        assert hashlib.sha256((tmp_path / "out" / tar["filename"]).read_bytes()).hexdigest() == tar["sha256"]
