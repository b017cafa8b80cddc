"""The shard index: a cache that is valid only for the exact bytes that it was made from."""

import json
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.io import shard_index
from tasks.io.fingerprints import Fingerprint
from tasks.io.raw_tar import read_tar
from tasks.io.shard_index import ShardIndexes, index_path, read_index, write_index
from tests.tasks.raw_shards import files_under, sample, tar_bytes, write_shard


@pytest.fixture
def tar(tmp_path):
    return write_shard(tmp_path / "raw", 0, [sample("a", 1), sample("b", 2), [("odd\udcff.x", b"")]])


@pytest.fixture
def reads(monkeypatch):
    """The tars whose headers are parsed, in order."""
    parsed = []
    monkeypatch.setattr(shard_index, "read_tar", lambda path: parsed.append(path.name) or read_tar(path))
    return parsed


def fingerprint():
    return Fingerprint(name="00000000.tar", size=1, sha256="0" * 64)


@pytest.mark.parametrize(
    "raw",
    [
        tar_bytes([*sample("a"), ("caf\udce9.\udcff", b"x")]),
        tar_bytes([*sample("a"), ("noext\udce9", b"x")]),
        tar_bytes(sample("a"))[:700],
        b"",
        bytes(10240),
        tar_bytes(sample("a")) + b"more",
    ],
    ids=["odd names", "trouble", "cut", "zero bytes", "empty", "trailing"],
)
def test_an_index_tells_what_the_tar_tells(tmp_path, raw):
    (tmp_path / "x.tar").write_bytes(raw)
    contents = read_tar(tmp_path / "x.tar")
    write_index(tmp_path / "index", contents, fingerprint())
    assert read_index(tmp_path / "index", fingerprint()) == contents


def test_headers_are_parsed_once(tmp_path, tar, reads):
    for _ in range(3):
        ShardIndexes(tmp_path / "own").contents(tar)
    assert reads == ["00000000.tar"]


def test_an_index_of_another_tar_is_not_believed(tmp_path, tar):
    write_index(tmp_path / "index", read_tar(tar), fingerprint())
    assert read_index(tmp_path / "index", fingerprint().model_copy(update={"sha256": "1" * 64})) is None


def test_an_index_of_an_older_version_is_not_believed(tmp_path, tar, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(shard_index, "INDEX_VERSION", 0)
        write_index(tmp_path / "index", read_tar(tar), fingerprint())
    assert read_index(tmp_path / "index", fingerprint()) is None


@pytest.mark.parametrize("header", [b"", b"[]", b"null", b"{", b'{"version": 2}', json.dumps({"tar": 1}).encode()])
def test_a_foreign_parquet_file_in_its_place_is_not_believed(tmp_path, header):
    table = pa.table({"key": [b"a"]}).replace_schema_metadata({b"shard-index": header})
    pq.write_table(table, tmp_path / "index")
    assert read_index(tmp_path / "index", fingerprint()) is None


def test_a_damaged_index_is_made_anew_and_never_believed(tmp_path, tar, reads):
    indexes = ShardIndexes(tmp_path / "own")
    expected = indexes.contents(tar)
    path = index_path(tmp_path / "own", tar)
    whole = path.read_bytes()
    rng = random.Random(3)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        assert read_index(path, indexes.fingerprint(tar)) in (None, expected)
    for rubbish in (b"", whole[:-9], b"PAR1", b"<html>"):
        path.write_bytes(rubbish)
        assert indexes.contents(tar) == expected
        assert path.read_bytes() == whole


def test_the_index_of_the_audit_is_read_and_left_alone(tmp_path, tar, reads):
    expected = ShardIndexes(tmp_path / "audit").contents(tar)
    before = files_under(tmp_path / "audit")
    indexes = ShardIndexes(tmp_path / "own", shared=tmp_path / "audit")
    assert indexes.contents(tar) == expected
    assert reads == ["00000000.tar"]
    assert files_under(tmp_path / "audit") == before
    assert files_under(tmp_path / "own") == {}


def test_a_tar_that_changed_since_the_audit_is_indexed_again_beside_it(tmp_path, tar, reads):
    ShardIndexes(tmp_path / "audit").contents(tar)
    before = files_under(tmp_path / "audit")
    tar.write_bytes(tar_bytes(sample("c")))
    contents = ShardIndexes(tmp_path / "own", shared=tmp_path / "audit").contents(tar)
    assert [group.key for group in contents.groups] == ["c"]
    assert files_under(tmp_path / "audit") == before
    assert index_path(tmp_path / "own", tar).is_file()


def test_a_changed_byte_under_the_old_mtime_is_noticed(tmp_path, tar):
    indexes = ShardIndexes(tmp_path / "own")
    times, first = tar.stat(), indexes.fingerprint(tar)
    data = bytearray(tar.read_bytes())
    data[600] ^= 1
    tar.write_bytes(data)
    os.utime(tar, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert indexes.fingerprint(tar) != first


def test_the_same_bytes_give_the_same_index_anywhere(tmp_path, tar):
    for folder in ("one", "two"):
        ShardIndexes(tmp_path / folder).contents(tar)
    assert files_under(tmp_path / "one") == files_under(tmp_path / "two")
