"""The flow download-images as a user starts it: official downloader, metadata check, progress view."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import yaml

from tasks.contracts.layout import DataRoot
from tasks.images.environment import DownloaderEnvironment
from tasks.io.files import sha256_of
from tests.conftest import Done, credentials
from tests.tasks.images.conftest import Slice, make_slice
from tests.tasks.images.upstream import Upstream
from tests.tasks.images.web import Web

pytestmark = pytest.mark.xdist_group("faults")


@pytest.fixture
def arguments(tmp_path: Path, web: Web, official: DownloaderEnvironment, upstream: Upstream) -> list[str]:
    """The command line of the official downloader, for a separate slice."""
    slice_ = make_slice(DataRoot(tmp_path / "root"), web)
    environment = official.python.parents[1]
    return [
        *("--root", str(slice_.root.path), "--dataset-slice", str(slice_file(slice_))),
        *("--download.environment", str(environment)),
        *("--download.upstream-url", upstream.url, "--download.upstream-commit", upstream.commit),
        *("--download.processes-count", "1", "--download.thread-count", "4", "--download.allow-private-hosts", "true"),
    ]


def slice_file(slice_: Slice) -> Path:
    """Write a slice file that pins the existing metadata; return its path."""
    files = [
        {
            "name": path.name,
            "rows": slice_.source.rows[path.name],
            "bytes": path.stat().st_size,
            "sha256": sha256_of(path),
        }
        for path in sorted(slice_.root.metadata.glob("*.parquet"))
    ]
    pins = {"name": "Small.Web", "repo_id": "demo/web", "revision": "ab" * 20, "downloader": "official", "files": files}
    path = slice_.root.path / "slice.yaml"
    path.write_text(yaml.safe_dump(pins))
    return path


def artifact(api: str, key: str) -> dict[str, object]:
    """Return the latest artifact with a key, as the UI receives it."""
    found: dict[str, object] = httpx.get(f"{api}/artifacts/{key}/latest", timeout=30, auth=credentials()).json()
    return found


def test_official_download_in_the_flow_and_in_the_ui(
    program: Callable[..., Done], arguments: list[str], prefect_server: str, tmp_path: Path
) -> None:
    done = program("flows.images", *arguments, "--download.accepted-findings", '["host_loopback"]')
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["totals"]["successes"] == 32
    assert "cv2 4.6.0" in (tmp_path / "root" / "downloader-environment.txt").read_text()
    bar = artifact(prefect_server, "download-small-web")
    assert float(str(bar["data"])) == 100
    assert "2 of 2 shards done: 40 attempts, 32 successes (80.0%)" in str(bar["description"])
    assert "HTTP Error 404: Not Found 4" in str(bar["description"])
    rows = json.loads(str(artifact(prefect_server, "download-shards-small-web")["data"]))
    assert [(row["shard"], row["state"]) for row in rows] == [("00000000", "done"), ("00000001", "done")]
    look = json.loads(str(artifact(prefect_server, "metadata-look")["data"]))
    assert [(row["finding"], row["count"], row["stops"]) for row in look] == [("host_loopback", 40, "no")]


def test_flow_refuses_what_must_not_be_downloaded_in_a_sentence(
    program: Callable[..., Done], arguments: list[str], tmp_path: Path
) -> None:
    done = program("flows.images", *arguments)
    assert done.status == 1
    assert "host_loopback: 40 URLs of this very machine" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "root" / "raw" / "shards").exists()
