"""For any bytes, each reader returns a verdict or raises a typed error; nothing is written outside its folder."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.audit.stats import contradictions, parse_stats
from tasks.contracts.errors import MetadataError, ShardError
from tasks.contracts.settings import ConvertSettings
from tasks.convert.jpeg import check_jpeg
from tasks.convert.sample import judge
from tasks.images.completion import StatsError, read_stats
from tasks.io.fingerprints import Fingerprints
from tasks.io.raw_tar import read_tar
from tasks.io.shard_index import ShardIndexes, read_index, write_index
from tasks.metadata.look import look_at
from tasks.metadata.slices import SliceFile
from tasks.metadata.verify import verify_file
from tests.fuzz.mutations import corpus, keeping, near
from tests.tasks.convert.serial import convert

FUZZ = settings.get_profile("fuzz")
SLOW = settings(FUZZ, max_examples=max(1, FUZZ.max_examples // 4))
HEADERS = (b"ustar  \0", b"ustar\x0000", b"\x80" + b"\xff" * 11, b"L" * 8, b"\0" * 512, b"%011o" % 2**30)
JSON = (b"[" * 3000, b"9" * 5000, b"1e999", b"NaN", b'"\\ud800"', b"\xef\xbb\xbf", b'{"count":', b"-0.0", b"true")
MARKERS = (
    b"\xff\xd8",
    b"\xff\xd9",
    b"\xff\xda",
    b"\xff\xc2",
    b"\xff\xff\xff\xff",
    b"\xff\xe2\xff\xffMPF\0",
    b"\xff\xd0",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(autouse=True, scope="module")
def no_power_cut() -> Iterator[None]:
    """Skip fsync: it is slow and only matters in a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


def check_tar(data: bytes, folder: Path) -> None:
    """Check that all members lie within the file, and that the index matches."""
    path = folder / "00000000.tar"
    path.write_bytes(data)
    contents = read_tar(path)
    for group in contents.groups:
        assert all(member.offset >= 0 and member.offset + member.size <= len(data) for member in group.members)
    assert all(trouble.groups_before <= len(contents.groups) for trouble in contents.troubles)
    json.dumps([trouble.message for trouble in contents.troubles])
    fingerprint = ShardIndexes(folder / "index").fingerprint(path)
    write_index(folder / "index.parquet", contents, fingerprint)
    assert read_index(folder / "index.parquet", fingerprint) == contents


def check_stages(data: bytes, folder: Path) -> None:
    """Check that audit and conversion end in findings, a consistent manifest, or a ShardError."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        raw, out = Path(name, "raw"), Path(name, "out")
        raw.mkdir()
        (raw / "00000000.tar").write_bytes(data)
        audit = audit_shard(AuditJob(shards_dir=raw, audit_dir=out / "audit", shard="00000000"))
        assert audit.findings or audit.samples
        try:
            counts = convert(raw, out / "energon", ConvertSettings(), out / "audit")["counts"]
        except ShardError:
            counts = None
        if counts:
            assert counts["input_samples"] == counts["train"] + counts["val"] + counts["skipped"]
        assert {path.name for path in Path(name).iterdir()} == {"raw", "out"}
        assert [path.name for path in raw.iterdir()] == ["00000000.tar"]


def check_stats(data: bytes, folder: Path) -> None:
    """Check that both readers of stats return numbers or an error, and that the audit's result survives its receipt."""
    stats, problems = parse_stats(data)
    told = [*problems, *contradictions(stats)]
    assert type(stats).model_validate_json(stats.model_dump_json()) == stats
    json.dumps(told).encode()
    (folder / "00000000_stats.json").write_bytes(data)
    try:
        read = read_stats(folder / "00000000_stats.json")
    except StatsError as error:
        assert str(error)
    else:
        assert read.successes + read.failed_to_download + read.failed_to_resize == read.count


def check_picture(data: bytes, folder: Path) -> None:
    """Check that a picture without a fault has a size."""
    verdict = check_jpeg(data)
    assert verdict.fault or (verdict.width and verdict.height)


def check_sample(data: bytes, folder: Path) -> None:
    """Check any bytes as JSON and as caption: the result is a verdict, and a reject has a cause."""
    verdict = judge("000000000", b"", data, data)
    assert verdict.before_uid or verdict.after_uid
    assert verdict.cause


def check_metadata(data: bytes, folder: Path) -> None:
    """Check that bytes other than the pinned ones raise an error, and that a look at them succeeds or raises one."""
    path = folder / "a.parquet"
    path.write_bytes(data)
    pin = SliceFile(name="a.parquet", rows=40, bytes=1, sha256="0" * 64)
    with pytest.raises(MetadataError, match="it"):
        verify_file(path, pin, Fingerprints(folder / "notes"))
    try:
        look_at([path])
    except MetadataError as error:
        assert "a.parquet cannot be read" in str(error)


CHECKS = {"tar": check_tar, "stats": check_stats, "jpeg": check_picture, "parquet": check_metadata}


@pytest.mark.parametrize("kind", CHECKS)
def test_kept_corpus(kind: str, folder: Path) -> None:
    for data in corpus(kind):
        CHECKS[kind](data, folder)
        if kind == "tar":
            check_stages(data, folder)


@FUZZ
@given(near("tar", HEADERS))
def test_tar_reader(folder: Path, data: bytes) -> None:
    keeping("tar", lambda data: check_tar(data, folder))(data)


@SLOW
@given(near("tar", HEADERS))
def test_audit_and_conversion_of_a_tar(folder: Path, data: bytes) -> None:
    keeping("tar", lambda data: check_stages(data, folder))(data)


@FUZZ
@given(st.one_of(near("stats", JSON), st.binary(max_size=60)))
def test_stats_reader(folder: Path, data: bytes) -> None:
    keeping("stats", lambda data: check_stats(data, folder))(data)


@FUZZ
@given(st.one_of(near("stats", JSON), st.binary(max_size=60)))
def test_sample_reader(folder: Path, data: bytes) -> None:
    keeping("stats", lambda data: check_sample(data, folder))(data)


@FUZZ
@given(near("jpeg", MARKERS))
def test_jpeg_check(folder: Path, data: bytes) -> None:
    keeping("jpeg", lambda data: check_picture(data, folder))(data)


@FUZZ
@given(near("parquet", (b"PAR1", b"\xff" * 8)))
def test_metadata_check(folder: Path, data: bytes) -> None:
    keeping("parquet", lambda data: check_metadata(data, folder))(data)
