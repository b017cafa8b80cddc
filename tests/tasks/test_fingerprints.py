"""A file counts as unchanged only while its size and times are those at the time of hashing."""

import errno
import json
import os

import pytest

from tasks.io import fingerprints as module
from tasks.io.files import sha256_of
from tasks.io.fingerprints import Fingerprints
from tests.tasks.raw_shards import files_under


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    return path


@pytest.fixture
def hashed(monkeypatch):
    """The names of the files that are read for hashing."""
    names = []
    monkeypatch.setattr(module, "sha256_of", lambda path: names.append(path.name) or sha256_of(path))
    return names


def test_an_unchanged_file_is_hashed_once(tmp_path, file, hashed):
    first = Fingerprints(tmp_path / "notes").of(file)
    assert Fingerprints(tmp_path / "notes").of(file) == first
    assert (first.name, first.size, hashed) == ("file", 7, ["file"])


def test_a_full_check_hashes_every_time(tmp_path, file, hashed):
    for _ in range(2):
        Fingerprints(tmp_path / "notes", "full").of(file)
    assert hashed == ["file", "file"]


def test_a_changed_byte_under_the_old_size_and_mtime_is_noticed(tmp_path, file):
    notes = Fingerprints(tmp_path / "notes")
    first, times = notes.of(file), file.stat()
    file.write_bytes(b"cOntent")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert notes.of(file).sha256 == sha256_of(file) != first.sha256


def test_a_file_that_changes_right_after_it_was_hashed_is_noticed(tmp_path):
    notes = Fingerprints(tmp_path / "notes")
    for number in range(10):
        (tmp_path / "file").write_bytes(b"%07d" % number)
        assert notes.of(tmp_path / "file").sha256 == sha256_of(tmp_path / "file")


def test_a_fresh_file_is_hashed_only_when_its_clock_tick_is_over(tmp_path, file, monkeypatch):
    """Wait for the tick to end: a change within the same tick would keep the recorded size and times."""
    waits = []
    monkeypatch.setattr(module.time, "sleep", waits.append)
    monkeypatch.setattr(module.time, "time_ns", lambda: file.stat().st_ctime_ns + 5_000_000)
    Fingerprints(tmp_path / "notes").of(file)
    assert waits == [pytest.approx(0.015)]
    monkeypatch.setattr(module.time, "time_ns", lambda: file.stat().st_ctime_ns + 10**9)
    Fingerprints(tmp_path / "other").of(file)
    assert len(waits) == 1


def test_a_file_put_in_its_place_is_noticed(tmp_path, file):
    notes = Fingerprints(tmp_path / "notes")
    notes.of(file)
    (tmp_path / "other").write_bytes(b"CONTENT")
    os.utime(tmp_path / "other", ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    (tmp_path / "other").replace(file)
    assert notes.of(file).sha256 == sha256_of(file)


def test_a_file_that_grows_while_it_is_hashed_is_hashed_again(tmp_path, file, monkeypatch):
    def grows(path):
        value = sha256_of(path)
        monkeypatch.setattr(module, "sha256_of", sha256_of)
        path.write_bytes(b"longer content")
        return value

    monkeypatch.setattr(module, "sha256_of", grows)
    assert Fingerprints(tmp_path / "notes").of(file).sha256 == sha256_of(file)


@pytest.mark.parametrize("rubbish", [b"", b"{", b"[]", b"null", b'{"size": "7"}', b"\xff"])
def test_damaged_notes_cost_time_and_nothing_else(tmp_path, file, hashed, rubbish):
    notes = Fingerprints(tmp_path / "notes")
    first = notes.of(file)
    (tmp_path / "notes" / "file.json").write_bytes(rubbish)
    assert notes.of(file) == first
    assert hashed == ["file", "file"]


def test_without_keeping_nothing_is_written(tmp_path, file):
    Fingerprints(tmp_path / "notes", keep=False).of(file)
    assert set(files_under(tmp_path)) == {"file"}


def test_notes_that_were_held_back_are_kept_when_told_and_forgotten_notes_are_gone(tmp_path, file, hashed):
    notes = Fingerprints(tmp_path / "notes", "full", keep=False)
    notes.of(file)
    notes.keep_notes()
    Fingerprints(tmp_path / "notes").of(file)
    assert hashed == ["file"]
    notes.forget()
    Fingerprints(tmp_path / "notes").of(file)
    assert hashed == ["file", "file"]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_folder_that_cannot_be_written_to_goes_without_notes(tmp_path, file, monkeypatch, number):
    def read_only(*arguments):
        raise OSError(number, "no")

    monkeypatch.setattr(module, "write_json", read_only)
    assert Fingerprints(tmp_path / "notes").of(file).size == 7


def test_a_full_disk_is_told(tmp_path, file, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(module, "write_json", full)
    with pytest.raises(OSError, match="full"):
        Fingerprints(tmp_path / "notes").of(file)


def test_a_missing_cut_or_changed_file_does_not_match(tmp_path, file):
    notes = Fingerprints(tmp_path / "notes")
    expected = notes.of(file)
    assert notes.matches(file, expected)
    file.write_bytes(b"cOntent")
    assert not notes.matches(file, expected)
    file.write_bytes(b"conten")
    assert not notes.matches(file, expected)
    file.unlink()
    assert not notes.matches(file, expected)
    assert not notes.matches(tmp_path / "other" / "file", expected)


def test_note_with_one_changed_digit_is_ignored(tmp_path, file, hashed):
    first = Fingerprints(tmp_path / "notes").of(file)
    note = tmp_path / "notes" / "file.json"
    changed = "0" if first.sha256[0] != "0" else "1"
    note.write_text(note.read_text().replace(first.sha256, changed + first.sha256[1:]))
    assert Fingerprints(tmp_path / "notes").of(file) == first
    assert hashed == ["file", "file"]


def test_note_of_an_earlier_version_is_made_again(tmp_path, file, hashed):
    first = Fingerprints(tmp_path / "notes").of(file)
    note = tmp_path / "notes" / "file.json"
    note.write_text(json.dumps({name: value for name, value in json.loads(note.read_text()).items() if name != "seal"}))
    assert Fingerprints(tmp_path / "notes").of(file) == first
    assert hashed == ["file", "file"]
