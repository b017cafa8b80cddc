"""Files in the metadata folder that differ from their pins, and the errors for them."""

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from tasks.contracts.errors import MetadataError
from tasks.io.files import sha256_of
from tasks.metadata.manifest import MANIFEST_NAME, read_manifest, verify_metadata, write_manifest
from tasks.metadata.slices import SliceFile
from tasks.metadata.verify import fingerprints_in, verify_file
from tests.tasks.metadata.samples import NAMES, flip_byte, make_slice, pin, table, write


def pin_of_bytes(path: Path) -> SliceFile:
    return SliceFile(name=path.name, rows=1, bytes=max(path.stat().st_size, 1), sha256=sha256_of(path))


def verified(path: Path, pinned: SliceFile):
    return verify_file(path, pinned, fingerprints_in(path.parent))


def test_the_manifest_lists_pins_and_columns_with_their_types(tmp_path: Path):
    pins = [write(tmp_path / name) for name in NAMES]
    manifest = verify_metadata(tmp_path, make_slice(*pins))
    assert [file.name for file in manifest.files] == list(NAMES)
    assert manifest.total_rows == 160
    columns = {column.name: column.type for column in manifest.files[0].columns}
    assert columns["original_width"] == "int64"
    assert columns["face_bboxes"].startswith("list<") and "double" in columns["face_bboxes"]


def test_the_manifest_has_the_same_bytes_in_every_folder(tmp_path: Path):
    first, second = tmp_path / "one", tmp_path / "two"
    for folder in (first, second):
        pins = [write(folder / name) for name in NAMES]
        write_manifest(folder, verify_metadata(folder, make_slice(*reversed(pins)), "full"))
    assert (first / MANIFEST_NAME).read_bytes() == (second / MANIFEST_NAME).read_bytes()
    assert read_manifest(first) == read_manifest(second) is not None


def test_metadata_sha256_changes_with_any_pin(tmp_path: Path):
    one, two = write(tmp_path / "a.parquet"), write(tmp_path / "b.parquet")
    sums = {
        make_slice(one).metadata_sha256,
        make_slice(two).metadata_sha256,
        make_slice(one, two).metadata_sha256,
        make_slice(one.model_copy(update={"rows": 1})).metadata_sha256,
    }
    assert len(sums) == 4


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"schema_version": 2}'])
def test_a_manifest_that_cannot_be_understood_counts_as_none(tmp_path: Path, content: bytes | None):
    if content is not None:
        (tmp_path / MANIFEST_NAME).write_bytes(content)
    assert read_manifest(tmp_path) is None


def test_three_of_four_files_are_not_a_slice(tmp_path: Path):
    pins = [write(tmp_path / name) for name in NAMES]
    (tmp_path / "c.parquet").unlink()
    with pytest.raises(MetadataError, match=r"c\.parquet is missing"):
        verify_metadata(tmp_path, make_slice(*pins))


def test_the_problems_of_all_files_are_reported_at_once(tmp_path: Path):
    pins = [write(tmp_path / name) for name in NAMES]
    (tmp_path / "a.parquet").write_bytes(b"")
    (tmp_path / "b.parquet").unlink()
    flip_byte(tmp_path / "c.parquet")
    write(tmp_path / "stray.parquet")
    with pytest.raises(MetadataError) as caught:
        verify_metadata(tmp_path, make_slice(*pins))
    message = str(caught.value)
    assert "stray.parquet" in message
    for name, words in [("a", "it is empty"), ("b", "missing"), ("c", "SHA-256")]:
        assert f"{name}.parquet" in message and words in message
    assert "d.parquet" not in message


@pytest.mark.parametrize("stray", ["stray.parquet", ".hidden.parquet"])
def test_a_stray_parquet_file_is_refused_since_the_downloader_would_read_it(tmp_path: Path, stray: str):
    pinned = write(tmp_path / "a.parquet")
    shutil.copy(tmp_path / "a.parquet", tmp_path / stray)
    with pytest.raises(MetadataError, match=f"does not pin: {stray}"):
        verify_metadata(tmp_path, make_slice(pinned))


def test_files_of_other_kinds_are_left_alone(tmp_path: Path):
    pinned = write(tmp_path / "a.parquet")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "a.parquet.wrong-01234567").write_text("old")
    assert verify_metadata(tmp_path, make_slice(pinned)).total_rows == 40


@pytest.mark.parametrize("change", [-100, 100])
def test_a_wrong_size_is_reported_with_size_and_hash(tmp_path: Path, change: int):
    path = tmp_path / "a.parquet"
    pinned = write(path)
    data = path.read_bytes()
    path.write_bytes(data[:change] if change < 0 else data + data[:change])
    with pytest.raises(MetadataError, match=rf"size is {len(data) + change} bytes, {len(data)} are pinned") as caught:
        verified(path, pinned)
    assert "its SHA-256 is" in str(caught.value)


def test_right_size_and_wrong_byte_is_caught_by_the_hash_alone(tmp_path: Path):
    path = tmp_path / "a.parquet"
    pinned = write(path)
    flip_byte(path)
    with pytest.raises(MetadataError, match=f"SHA-256 is {sha256_of(path)}, {pinned.sha256} is pinned") as caught:
        verified(path, pinned)
    assert "its size" not in str(caught.value)


def test_a_changed_byte_under_an_old_mtime_is_caught(tmp_path: Path):
    path = tmp_path / "a.parquet"
    pinned = write(path)
    verified(path, pinned)
    before = path.stat()
    flip_byte(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(MetadataError, match="SHA-256"):
        verified(path, pinned)


def test_a_second_look_at_unchanged_files_does_not_hash_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pinned = write(tmp_path / "a.parquet")
    verify_metadata(tmp_path, make_slice(pinned))
    hashed: list[Path] = []
    monkeypatch.setattr("tasks.io.fingerprints.sha256_of", lambda path: hashed.append(path) or sha256_of(path))
    verify_metadata(tmp_path, make_slice(pinned))
    assert hashed == []
    verify_metadata(tmp_path, make_slice(pinned), verify="full")
    assert hashed == [tmp_path / "a.parquet"]


def test_a_wrong_row_count_names_both_numbers(tmp_path: Path):
    pinned = write(tmp_path / "a.parquet").model_copy(update={"rows": 41})
    with pytest.raises(MetadataError, match="it has 40 rows, 41 are pinned"):
        verified(tmp_path / "a.parquet", pinned)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"\n<!DOCTYPE html><html><title>502</title>", r"an HTML page.*DOCTYPE"),
        (b"<HTML><body>sign in", "an HTML page"),
        (b"version https://git-lfs.example/spec/v1\noid sha256:00", "a Git-LFS pointer"),
        (b"uid,url,text\n1,2,3\n", r"not Parquet .first bytes: b'uid,url"),
        (b"PAR1 and then nothing", "cut or damaged"),
        (bytes(range(256)), "not Parquet"),
    ],
)
def test_a_file_that_is_not_parquet_is_told_by_its_first_bytes(tmp_path: Path, content: bytes, words: str):
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(MetadataError, match=words):
        verified(path, pin_of_bytes(path))


def test_a_damaged_footer_is_a_sentence_whatever_the_damage(tmp_path: Path):
    path = tmp_path / "a.parquet"
    write(path)
    whole = path.read_bytes()
    for offset in range(len(whole) - 800, len(whole), 5):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 0xFF]) + whole[offset + 1 :])
        with pytest.raises(MetadataError):
            verified(path, SliceFile(name=path.name, rows=40, bytes=len(whole), sha256="0" * 64))


@pytest.mark.parametrize(
    "boxes",
    [
        pa.list_(pa.list_(pa.float64())),
        pa.list_(pa.list_(pa.float32())),
        pa.large_list(pa.list_(pa.float64())),
        pa.large_list(pa.large_list(pa.float32())),
    ],
)
@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.large_string())]
)
def test_the_types_that_writers_of_datacomp_use_are_accepted(tmp_path: Path, boxes: pa.DataType, text: pa.DataType):
    pinned = write(tmp_path / "a.parquet", table(boxes=boxes, text=text))
    assert verified(tmp_path / "a.parquet", pinned).rows == 40


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (table(boxes=pa.list_(pa.float64())), "its column face_bboxes is list<.*list of list of float or double"),
        (table(boxes=pa.list_(pa.list_(pa.string()))), "its column face_bboxes is list<.*string"),
        (table(text=pa.int64()), "its column text is int64, string or large_string is needed"),
        (table().drop_columns("uid"), "it has 0 columns named uid"),
        (table().rename_columns(["uid", "url", "text", "url", "face_bboxes"]), "it has 2 columns named url"),
    ],
)
def test_columns_that_cannot_be_used_are_named_with_their_type(tmp_path: Path, content: pa.Table, words: str):
    path = tmp_path / "a.parquet"
    pinned = write(path, content)
    with pytest.raises(MetadataError, match=words):
        verified(path, pinned)


def test_every_schema_problem_is_a_sentence_of_its_own(tmp_path: Path):
    path = tmp_path / "a.parquet"
    write(path, table(text=pa.int64(), boxes=pa.list_(pa.float64())).drop_columns("url"))
    with pytest.raises(MetadataError) as caught:
        verified(path, pin(path))
    assert len(str(caught.value).splitlines()) == 4


def test_other_columns_are_recorded_not_judged(tmp_path: Path):
    content = table().append_column("clip_score", pa.array([0.3] * 40)).append_column("tags", [["x"]] * 40)
    pinned = write(tmp_path / "a.parquet", content)
    names = [column.name for column in verified(tmp_path / "a.parquet", pinned).columns]
    assert names[-2:] == ["clip_score", "tags"]
