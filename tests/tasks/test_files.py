"""Files are complete or absent, whatever happens while they are written."""

import os
import stat

import pytest

from tasks.io.files import (
    atomic_file,
    canonical_json,
    digest,
    readable_json,
    readable_text,
    remove_leftovers,
    sha256_of,
    shown_text,
    write_bytes,
    write_json,
)
from tests.tasks.raw_shards import files_under


def test_a_file_appears_whole_and_only_at_the_end(tmp_path):
    with atomic_file(tmp_path / "new" / "file") as file:
        file.write(b"content")
        assert not (tmp_path / "new" / "file").exists()
    assert files_under(tmp_path) == {"new/file": b"content"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path, error):
    write_bytes(tmp_path / "file", b"old")
    with pytest.raises(error), atomic_file(tmp_path / "file", staging=tmp_path / "staging") as file:
        file.write(b"new")
        raise error
    assert files_under(tmp_path) == {"file": b"old"}


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_between_writing_and_renaming_leaves_nothing(tmp_path, monkeypatch, call):
    def no_space(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync" if call == "fsync" else "pathlib.Path.replace", no_space)
    with pytest.raises(OSError, match="No space left"):
        write_bytes(tmp_path / "file", b"content")
    assert files_under(tmp_path) == {}


def test_the_data_is_on_disk_before_the_name_is(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr("os.fsync", lambda fd: calls.append("fsync") or fsync(fd))
    monkeypatch.setattr("pathlib.Path.replace", lambda path, target: calls.append("rename") or replace(path, target))
    write_bytes(tmp_path / "file", b"content")
    assert calls == ["fsync", "rename", "fsync"]


def test_temporary_files_lie_in_the_staging_folder(tmp_path):
    with atomic_file(tmp_path / "file", staging=tmp_path / "staging"):
        (leftover,) = (tmp_path / "staging").iterdir()
        assert leftover.name.startswith(".file.")


def test_leftovers_of_a_killed_run_are_removed_and_nothing_else_is(tmp_path):
    for name in (".file.0123.partial", "keep.partial", ".keep", "below/.file.4567.partial", "below/keep"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert set(files_under(tmp_path)) == {"keep.partial", ".keep", "below/keep"}
    remove_leftovers(tmp_path / "nowhere")


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_files_honour_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_bytes(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_json_files_do_not_depend_on_the_order_of_keys(tmp_path):
    write_json(tmp_path / "one", {"b": 1, "a": "ü"})
    write_json(tmp_path / "two", {"a": "ü", "b": 1})
    assert (tmp_path / "one").read_text(encoding="utf-8") == '{\n  "a": "ü",\n  "b": 1\n}\n'
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1}) != digest({"a": 2, "b": "1"})


def test_texts_that_are_no_unicode_can_be_written(tmp_path):
    assert readable_json(["\udcff"]) == b'[\n  "\\udcff"\n]\n'
    assert canonical_json("\udcff") == b'"\\udcff"'
    assert readable_text("caf\udce9 ü") == "caf\\udce9 ü"


def test_sha256_of_a_file(tmp_path):
    write_bytes(tmp_path / "file", b"abc")
    assert sha256_of(tmp_path / "file") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("caf\u00e9 \u5b57", "caf\u00e9 \u5b57"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("two\r\nlines\u2028", "two\\r\\nlines\\u2028"),
        ("exe.\u202egpj", "exe.\\u202egpj"),
        ("caf\udce9", "caf\\udce9"),
    ],
)
def test_a_strangers_text_in_a_message_neither_commands_a_terminal_nor_breaks_the_line(text, shown):
    assert shown_text(text) == shown
