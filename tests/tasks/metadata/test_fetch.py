"""Fetching from a hub on a real socket: accepted files, rejected files, and retries."""

import contextlib
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub.constants
import pytest

from demo.hub import Fault
from tasks.contracts.errors import MetadataError, PipelineError, SettingsError, TransientError
from tasks.metadata.fetch import fetch_file
from tasks.metadata.hub import HubBusyError, Source
from tasks.metadata.manifest import verify_metadata
from tasks.metadata.slices import SliceFile
from tests.tasks.metadata.conftest import ServeHub
from tests.tasks.metadata.samples import REPO, REVISION, files_in, flip_byte, job, make_slice, table, write

NOWHERE = "http://127.0.0.1:9"


def test_all_files_of_a_slice_arrive_and_nothing_else_is_left(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    with serve():
        results = [fetch_file(job(tmp_path, pin)) for pin in pins]
    assert all(result.fetched and result.moved_aside is None for result in results)
    assert files_in(tmp_path / "metadata") == {pin.name for pin in pins}
    assert verify_metadata(tmp_path / "metadata", make_slice(*pins), "full").total_rows == 160


def test_files_that_are_there_and_right_are_not_fetched_again(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    with serve() as hub:
        fetch_file(job(tmp_path, pins[0]))
        asked = len(hub.requests)
        again = fetch_file(job(tmp_path, pins[0]))
    assert not again.fetched
    assert len(hub.requests) == asked > 0


def test_files_put_in_place_by_hand_need_no_hub(tmp_path: Path, pins: list[SliceFile], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    shutil.copytree(tmp_path / "served", tmp_path / "metadata")
    assert not any(fetch_file(job(tmp_path, pin)).fetched for pin in pins)


def test_only_the_missing_file_is_fetched(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    shutil.copytree(tmp_path / "served", tmp_path / "metadata")
    (tmp_path / "metadata" / "c.parquet").unlink()
    with serve() as hub:
        fetched = [pin.name for pin in pins if fetch_file(job(tmp_path, pin)).fetched]
    assert fetched == ["c.parquet"]
    assert {request.split()[1] for request in hub.requests} == {"c.parquet"}


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", None])
def test_a_wrong_file_is_moved_aside_and_named(
    tmp_path: Path,
    serve: ServeHub,
    pins: list[SliceFile],
    caplog: pytest.LogCaptureFixture,
    content: bytes | None,
):
    path = tmp_path / "metadata" / "a.parquet"
    shutil.copytree(tmp_path / "served", path.parent)
    if content is None:
        flip_byte(path)
    else:
        path.write_bytes(content)
    wrong = path.read_bytes()
    with serve(), caplog.at_level(logging.WARNING):
        result = fetch_file(job(tmp_path, pins[0]))
    assert result.fetched and result.moved_aside and result.moved_aside.startswith("a.parquet.wrong-")
    assert result.moved_aside in caplog.text
    assert (path.parent / result.moved_aside).read_bytes() == wrong
    assert verify_metadata(path.parent, make_slice(*pins)).total_rows == 160


def test_an_earlier_wrong_file_is_never_overwritten(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    path = tmp_path / "metadata" / "a.parquet"
    path.parent.mkdir()
    names = set()
    with serve():
        for _ in range(3):
            path.write_bytes(b"the same rubbish")
            names.add(fetch_file(job(tmp_path, pins[0])).moved_aside)
    assert len(names) == 3
    assert files_in(path.parent) == names | {"a.parquet"}


def test_a_wrong_file_is_kept_when_the_hub_cannot_be_reached(
    tmp_path: Path, pins: list[SliceFile], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    path = tmp_path / "metadata" / "a.parquet"
    path.parent.mkdir()
    path.write_bytes(b"precious")
    with pytest.raises(TransientError, match=f"{NOWHERE}.*set HF_ENDPOINT.*by hand"):
        fetch_file(job(tmp_path, pins[0]))
    (kept,) = files_in(path.parent)
    assert (path.parent / kept).read_bytes() == b"precious"


def test_a_changed_byte_under_an_old_mtime_is_fetched_anew(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    path = tmp_path / "metadata" / "a.parquet"
    with serve():
        fetch_file(job(tmp_path, pins[0]))
        flip_byte(path)
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 3600))
        assert fetch_file(job(tmp_path, pins[0])).fetched


@pytest.mark.parametrize(
    ("repo", "revision", "name", "words"),
    [
        ("someone/else", REVISION, "a.parquet", "no such dataset.*repo_id"),
        ("someone/e--se", REVISION, "a.parquet", "e--se"),
        (REPO, "f" * 40, "a.parquet", "no such revision"),
        (REPO, REVISION, "z.parquet", "no such file"),
    ],
)
def test_what_the_hub_does_not_have_is_named(
    tmp_path: Path, serve: ServeHub, pins: list[SliceFile], repo: str, revision: str, name: str, words: str
):
    asked = job(tmp_path, pins[0].model_copy(update={"name": name}), Source(repo, revision))
    with serve(), pytest.raises(MetadataError, match=f"{name} of .*{repo}.*{words}") as caught:
        fetch_file(asked)
    assert not isinstance(caught.value, TransientError)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault("status", 404), "answered 404.*HF_ENDPOINT"),
        (Fault("status", 401), "answered 401.*HF_TOKEN"),
        (Fault("status", 403), "answered 403.*HF_TOKEN"),
        (Fault("status", 403, {"X-Error-Code": "GatedRepo"}), "gated; accept its terms"),
        (Fault("status", 418), "answered 418"),
    ],
)
def test_a_refusal_says_what_to_do(tmp_path: Path, serve: ServeHub, pins: list[SliceFile], fault: Fault, words: str):
    with serve({"a.parquet": [fault]}), pytest.raises(MetadataError, match=words):
        fetch_file(job(tmp_path, pins[0]))
    assert files_in(tmp_path / "metadata") == set()


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("token", [None, "hf_expired"])
def test_a_refused_token_may_have_expired_and_a_public_dataset_needs_none(
    tmp_path: Path,
    serve: ServeHub,
    pins: list[SliceFile],
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    token: str | None,
):
    with serve({"a.parquet": [Fault("status", status)]}), pytest.raises(MetadataError, match="HF_TOKEN") as caught:
        if token:
            monkeypatch.setenv("HF_TOKEN", token)
        fetch_file(job(tmp_path, pins[0]))
    told = "may have expired" in str(caught.value) and "unset HF_TOKEN" in str(caught.value)
    assert told is bool(token) and "hf_expired" not in str(caught.value)


def test_wrong_bytes_from_the_hub_never_reach_the_folder(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    with serve({"a.parquet": [Fault("flip")]}) as hub, pytest.raises(MetadataError) as caught:
        fetch_file(job(tmp_path, pins[0]))
    assert f"what {hub.url} sent for a.parquet" in str(caught.value)
    assert f"{pins[0].sha256} is pinned" in str(caught.value)
    assert files_in(tmp_path / "metadata") == set()


def test_a_page_in_place_of_the_file_is_shown(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    (tmp_path / "served" / "a.parquet").write_bytes(b"<!DOCTYPE html><title>moved</title>")
    with serve(), pytest.raises(MetadataError, match=r"an HTML page, not Parquet.*DOCTYPE"):
        fetch_file(job(tmp_path, pins[0]))


@pytest.mark.parametrize("kind", ["portal", "html"])
def test_a_sign_in_page_of_the_network_is_told_from_a_hub(
    tmp_path: Path, serve: ServeHub, pins: list[SliceFile], kind: str
):
    with serve({"a.parquet": [Fault(kind)] * 3}), pytest.raises(MetadataError, match=r"HTML page.*HF_ENDPOINT"):
        fetch_file(job(tmp_path, pins[0]))
    assert files_in(tmp_path / "metadata") == set()


def test_a_file_that_was_a_page_for_a_moment_is_worth_a_retry(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    with serve({"a.parquet": [Fault("html")]}):
        with pytest.raises(TransientError, match="did not send what it announced"):
            fetch_file(job(tmp_path, pins[0]))
        assert fetch_file(job(tmp_path, pins[0])).fetched


def test_a_connection_cut_in_the_middle_ends_in_the_right_bytes(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    with serve({"a.parquet": [Fault("cut")]}):
        assert fetch_file(job(tmp_path, pins[0])).fetched


def test_fetched_files_honour_the_umask_of_the_team(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    before = os.umask(0o002)
    try:
        with serve():
            fetch_file(job(tmp_path, pins[0]))
    finally:
        os.umask(before)
    assert (tmp_path / "metadata" / "a.parquet").stat().st_mode & 0o777 == 0o664


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    (tmp_path / "metadata").write_text("not a folder")
    with serve(), pytest.raises(MetadataError, match=r"cannot write .*a\.parquet"):
        fetch_file(job(tmp_path, pins[0]))


def test_a_server_that_is_no_hub_is_told_so(tmp_path: Path, pins: list[SliceFile], monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "static" / "datasets" / REPO / "resolve" / REVISION
    shutil.copytree(tmp_path / "served", folder)
    with static_server(tmp_path / "static") as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        with pytest.raises(MetadataError, match=f"{url} does not answer as a hub does"):
            fetch_file(job(tmp_path, pins[0]))


def test_a_file_whose_pin_is_wrong_is_not_moved_aside(
    tmp_path: Path, pins: list[SliceFile], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    shutil.copytree(tmp_path / "served", tmp_path / "metadata")
    with pytest.raises(MetadataError, match="40 rows, 41 are pinned"):
        fetch_file(job(tmp_path, pins[0].model_copy(update={"rows": 41})))
    assert (tmp_path / "metadata" / "a.parquet").exists()


def test_the_library_s_offline_switch_is_named(tmp_path: Path, pins: list[SliceFile], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(MetadataError, match="HF_HUB_OFFLINE is set"):
        fetch_file(job(tmp_path, pins[0]))


@pytest.mark.parametrize("address", ["localhost:8080", "ftp://hub", "http://", "http://hub:port"])
def test_an_endpoint_that_is_no_address_is_refused(
    tmp_path: Path, pins: list[SliceFile], monkeypatch: pytest.MonkeyPatch, address: str
):
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(SettingsError, match="HF_ENDPOINT is"):
        fetch_file(job(tmp_path, pins[0]))


def test_a_fetch_that_was_killed_is_finished_by_the_next(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    folder = tmp_path / "metadata"
    with serve({"a.parquet": [Fault("stall")]}) as hub:
        code = "import sys, tasks.metadata.fetch as f; f.fetch_file(f.FetchJob.model_validate_json(sys.argv[1]))"
        child = subprocess.Popen([sys.executable, "-c", code, job(tmp_path, pins[0]).model_dump_json()])
        try:
            wait_until(lambda: "GET a.parquet" in hub.requests)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert not list(folder.glob("*.parquet")) and files_in(folder)
        assert fetch_file(job(tmp_path, pins[0])).fetched
    assert files_in(folder) == {"a.parquet"}


def test_two_fetches_of_one_file_at_a_time_both_end_well(tmp_path: Path, serve: ServeHub):
    pin = write(tmp_path / "served" / "a.parquet", table(rows=20_000))
    code = "import sys, tasks.metadata.fetch as f; f.fetch_file(f.FetchJob.model_validate_json(sys.argv[1]))"
    with serve():
        command = [sys.executable, "-c", code, job(tmp_path, pin).model_dump_json()]
        children = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        outcomes = [(child.communicate(timeout=60)[1], child.returncode) for child in children]
    assert all(status == 0 or "by another process at the same time" in error for error, status in outcomes)
    assert any(status == 0 for _, status in outcomes)
    assert files_in(tmp_path / "metadata") == {"a.parquet"}


def test_errors_survive_the_way_back_from_a_worker():
    error: PipelineError = pickle.loads(pickle.dumps(HubBusyError("busy", 3.0)))
    assert str(error) == "busy"


@contextlib.contextmanager
def static_server(folder: Path) -> Iterator[str]:
    """Serve the right files from a plain web server, without a hub's headers; yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def wait_until(happened, seconds: float = 30) -> None:
    """Wait for a condition with a long timeout: the machine may be busy."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)
