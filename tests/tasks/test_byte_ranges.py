"""Bytes of a tar are complete even if single reads are short; a file that ends early is a storage fault."""

import errno
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.contracts.errors import TransientError
from tasks.contracts.settings import ConvertSettings
from tasks.convert import scan
from tasks.convert.jpeg import check_jpeg
from tasks.convert.models import ScanJob
from tasks.convert.sample import MAX_TEXT_BYTES
from tasks.io import byte_ranges
from tasks.io.byte_ranges import MemberFile, pieces_of, read_ranges
from tasks.io.files import sha256_of
from tasks.io.storage import in_words
from tests.tasks.convert.serial import convert
from tests.tasks.raw_shards import files_under, picture, sample, write_shard

SETTINGS = ConvertSettings(validation_fraction=0)
JPG = picture(1)


def limit_reads(monkeypatch: pytest.MonkeyPatch, limit: Callable[[int], int]) -> None:
    """Let every pread return at most ``limit(size)`` bytes, as a network file system can."""
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, offset: pread(file, limit(size), offset))


@pytest.mark.parametrize("most", [1, 7, 511, 4096])
def test_short_reads_give_the_same_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    raw = write_shard(tmp_path / "raw", 0, [sample(f"{n}", n) for n in range(3)]).parent
    convert(raw, tmp_path / "whole", SETTINGS)
    limit_reads(monkeypatch, lambda size: min(size, most))
    manifest = convert(raw, tmp_path / "short", SETTINGS)
    assert manifest["counts"]["skipped"] == 0
    assert files_under(tmp_path / "short", but=["fingerprints"]) == files_under(
        tmp_path / "whole", but=["fingerprints"]
    )


def test_ranges_far_apart_are_whole_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(300_000)
    (tmp_path / "file").write_bytes(data)
    limit_reads(monkeypatch, lambda size: size // 2 + 1)
    with (tmp_path / "file").open("rb") as file:
        assert read_ranges(file, [(10, 1000), (250_000, 999)]) == [data[10:1010], data[250_000:250_999]]


def test_the_end_of_the_file_is_a_fault_of_the_storage_that_a_retry_may_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_shard(tmp_path / "raw", 0, [sample("a", 1)])
    job = ScanJob(source_dir=path.parent, dataset_dir=tmp_path / "out", audit_dir=None, shard="00000000")
    job.indexes().contents(path)
    with monkeypatch.context() as patch:
        limit_reads(patch, lambda size: 0)
        with pytest.raises(OSError, match="bytes too early") as caught:
            scan.scan_shard(job)
    told = in_words(caught.value)
    assert isinstance(told, TransientError) and str(path) in str(told)
    assert scan.scan_shard(job).usable == 1


def test_hashing_that_ends_before_the_file_does_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(bytes(1000))
    size = os.stat_result([0o644, 0, 0, 1, 0, 0, 1001, 0, 0, 0])
    monkeypatch.setattr(os, "fstat", lambda file: size)
    with pytest.raises(OSError, match="ended at byte 1000 of 1001") as caught:
        sha256_of(tmp_path / "file")
    assert caught.value.errno == errno.EIO


def large_tar(path: Path, size: int) -> tarfile.TarInfo:
    """Write a sparse tar whose only member is a JPEG with zeros after its end; return its header."""
    info = tarfile.TarInfo("a.jpg")
    info.size = size
    with path.open("wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT) + JPG)
        file.truncate(tarfile.BLOCKSIZE + size - 1)
        file.seek(0, os.SEEK_END)
        file.write(b"x" + bytes(-size % tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE))
    return info


def test_a_member_over_two_gib_is_read_whole_piece_by_piece(tmp_path: Path) -> None:
    size = 2**31 + 4321
    large_tar(tmp_path / "00000000.tar", size)
    with (tmp_path / "00000000.tar").open("rb") as file:
        member = MemberFile(file, tarfile.BLOCKSIZE, size)
        verdict = check_jpeg(member)
        sizes, last = 0, b""
        for piece in pieces_of(member):
            sizes, last = sizes + len(piece), piece
    assert (verdict.width, verdict.height, verdict.fault) == (24, 18, None)
    assert sizes == size and last.endswith(b"\0x") and len(last) <= 1 << 20


def test_pictures_that_are_read_piece_by_piece_give_the_same_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = [picture(n, (60, 40)) for n in range(4)]
    pictures[2] = pictures[2][:-300]
    samples = [sample(f"{n}", n, jpg=jpg) for n, jpg in enumerate(pictures)]
    raw = write_shard(tmp_path / "raw", 0, samples).parent
    convert(raw, tmp_path / "whole", SETTINGS)
    monkeypatch.setattr(byte_ranges, "LARGE_MEMBER", 100)
    monkeypatch.setattr(byte_ranges, "_PIECE", 333)
    assert convert(raw, tmp_path / "pieces", SETTINGS)["counts"]["skip_reasons"] == {"invalid_sample": 1}
    assert files_under(tmp_path / "pieces", but=["fingerprints"]) == files_under(
        tmp_path / "whole", but=["fingerprints"]
    )


def test_a_large_picture_that_the_storage_does_not_give_is_no_reject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_shard(tmp_path / "raw", 0, [sample("a", 1)])
    monkeypatch.setattr(byte_ranges, "LARGE_MEMBER", 100)
    with path.open("rb") as file, pytest.raises(OSError, match="too early"):
        check_jpeg(MemberFile(file, path.stat().st_size - 10, 1000))


@pytest.mark.parametrize("name", ["json", "txt"])
def test_texts_too_large_for_memory_are_rejects_that_say_so(tmp_path: Path, name: str) -> None:
    members = {"jpg": len(JPG), "json": 10, "txt": 10, name: MAX_TEXT_BYTES + 1}
    path = tmp_path / "raw" / "00000000.tar"
    path.parent.mkdir()
    with path.open("wb") as file:
        for extension, size in members.items():
            info = tarfile.TarInfo(f"a.{extension}")
            info.size = size
            file.write(info.tobuf(tarfile.GNU_FORMAT))
            file.truncate(file.tell() + size + -size % tarfile.BLOCKSIZE)
            file.seek(0, os.SEEK_END)
        file.write(bytes(2 * tarfile.BLOCKSIZE))
    job = ScanJob(source_dir=path.parent, dataset_dir=tmp_path / "out", audit_dir=None, shard="00000000")
    scan.scan_shard(job)
    (row,) = scan.pq.read_table(job.table_path).to_pylist()
    assert row["before_uid"] == "invalid_sample"
    assert row["cause"] == f"the {name.upper()} is larger than 256 MiB"
