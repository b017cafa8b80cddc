"""The demo in a data root: a rerun of the quickstart finds its port and its metadata."""

import http.client
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from demo.site import demo_web
from tasks.contracts.errors import PipelineError


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_second_run_keeps_port_and_metadata(tmp_path: Path) -> None:
    with demo_web(tmp_path) as first:
        before = content(tmp_path)
    with demo_web(tmp_path) as second:
        assert second == first
        assert content(tmp_path) == before
        with urllib.request.urlopen(f"{second.base_url}/jpeg/flower/8.jpg", timeout=20) as response:
            assert response.status == 200


SERVE = """
import sys, time
from pathlib import Path
from demo.site import demo_web
with demo_web(Path(sys.argv[1])) as demo:
    print(demo.base_url, flush=True)
    time.sleep(60)
"""


def test_a_run_that_was_killed_amid_a_download_finds_its_port_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        base_url = process.stdout.readline().strip()
        connection = http.client.HTTPConnection(base_url.removeprefix("http://"), timeout=20)
        connection.request("GET", "/fault/slow/1.jpg")
        process.kill()
    # The downloader may live on for a second: if its web server is gone, it gives up the URLs.
    time.sleep(1)
    with urllib.request.urlopen(f"{base_url}/jpeg/flower/8.jpg", timeout=20) as response:
        assert response.status == 200
    with demo_web(tmp_path) as demo:
        assert demo.base_url == base_url
    connection.close()


def test_the_hub_folder_holds_the_four_pinned_files_and_nothing_else(tmp_path: Path) -> None:
    with demo_web(tmp_path) as demo:
        assert {path.name for path in demo.hub_folder.iterdir()} == {file.name for file in demo.slice.files}
        assert demo.slice.is_complete_in(demo.hub_folder)


def test_damaged_and_missing_metadata_is_written_again_with_the_same_bytes(tmp_path: Path) -> None:
    with demo_web(tmp_path) as first:
        names = [file.name for file in first.slice.files]
    (first.hub_folder / names[0]).write_bytes(b"<html>not Parquet")
    (first.hub_folder / names[1]).unlink()
    with demo_web(tmp_path) as second:
        assert second == first
        assert second.slice.is_complete_in(second.hub_folder)


def test_a_run_that_was_killed_before_its_note_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / ".d8f4.parquet.0123.partial").write_bytes(b"half")
    with demo_web(tmp_path) as demo:
        assert len(list(demo.hub_folder.iterdir())) == 4


def test_a_port_that_somebody_else_took_is_named_with_the_way_out(tmp_path: Path) -> None:
    with demo_web(tmp_path) as demo:
        port = demo.base_url.rpartition(":")[2]
        with pytest.raises(PipelineError, match=f"port {port} .*new root"), demo_web(tmp_path, patience=1):
            pass


@pytest.mark.parametrize("note", ["", "{}", '{"port": 0, "slice": null}', "[1]"])
def test_a_note_that_cannot_be_understood_is_named_and_kept(tmp_path: Path, note: str) -> None:
    (tmp_path / "demo.json").write_text(note)
    with pytest.raises(PipelineError, match=r"demo\.json.*new root"), demo_web(tmp_path, patience=1):
        pass
    assert (tmp_path / "demo.json").read_text() == note
