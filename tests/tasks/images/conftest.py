"""A downloader environment for the whole session, a small web server, and metadata with URLs on it."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import DownloadSettings, TroubleSettings
from tasks.images.download import DownloadSummary, download_shards
from tasks.images.environment import OFFICIAL_LOCK, OFFICIAL_PYTHON, DownloaderEnvironment, build_environment
from tasks.images.identity import DownloadInput
from tasks.images.interpreters import find_python
from tasks.images.supervise import Observer
from tests.tasks.images.upstream import Upstream, make_upstream
from tests.tasks.images.web import Web, serve

BOX = [0.25, 0.25, 0.75, 0.75]
SETTINGS = DownloadSettings(
    processes_count=1,
    thread_count=4,
    number_sample_per_shard=15,
    retries=0,
    timeout=5,
    image_size=64,
    stall_restarts=0,
    allow_private_hosts=True,
    trouble=TroubleSettings(free_gb_warn=0, free_gb_stop=0),
)
OFFICIAL = DownloadSettings(
    downloader="official",
    processes_count=1,
    thread_count=4,
    retries=0,
    image_size=64,
    stall_restarts=0,
    allow_private_hosts=True,
    trouble=TroubleSettings(free_gb_warn=0, free_gb_stop=0),
)


@dataclass(frozen=True)
class Slice:
    """A data root with metadata of 40 rows in two files (25 and 15 rows: shards of 15, 10 and 15 attempts)."""

    root: DataRoot
    source: DownloadInput
    rows: list[dict[str, object]]

    def download(
        self,
        environment: DownloaderEnvironment,
        settings: DownloadSettings = SETTINGS,
        observer: Observer = Observer(),
        retry_failed: bool = False,
    ) -> DownloadSummary:
        return download_shards(self.root, self.source, settings, lambda: environment, observer, retry_failed)


@pytest.fixture(scope="session")
def downloader(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> DownloaderEnvironment:
    """One environment for all test processes; build_environment itself allows only one process to build."""
    return build_environment(shared_folder(tmp_path_factory, worker_id) / "downloader-env")


@pytest.fixture(scope="session")
def official(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> DownloaderEnvironment:
    """The official environment, also for all test processes."""
    folder = shared_folder(tmp_path_factory, worker_id) / "downloader-env-official"
    return build_environment(folder, OFFICIAL_LOCK, lambda: find_python(None, OFFICIAL_PYTHON))


@pytest.fixture(scope="session")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    return make_upstream(tmp_path_factory.mktemp("upstream"))


def shared_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def worker_id(request: pytest.FixtureRequest) -> str:
    """The name of the test process, for runs without pytest-xdist, which has the same fixture."""
    return getattr(request.config, "workerinput", {}).get("workerid", "master")


@pytest.fixture
def web() -> Iterator[Web]:
    with serve() as running:
        yield running


@pytest.fixture
def slice_(tmp_path: Path, web: Web) -> Slice:
    return make_slice(DataRoot(tmp_path / "data, root (1)"), web)


@pytest.fixture(scope="session")
def finished(
    tmp_path_factory: pytest.TempPathFactory, downloader: DownloaderEnvironment
) -> Iterator[tuple[Slice, DownloadSummary]]:
    """A downloaded slice that tests only read."""
    with serve() as web:
        made = make_slice(DataRoot(tmp_path_factory.mktemp("finished")), web)
        yield made, made.download(downloader)


@pytest.fixture
def copied(tmp_path: Path, finished: tuple[Slice, DownloadSummary]) -> Slice:
    """A copy of the finished slice for tests that damage it."""
    return copy_of(finished[0], tmp_path / "data, root (1)")


def copy_of(original: Slice, folder: Path) -> Slice:
    """Copy the slice to another data root."""
    root = DataRoot(folder)
    shutil.copytree(original.root.path, root.path)
    return Slice(root, original.source.model_copy(update={"metadata_dir": root.metadata}), original.rows)


def faulty_web(number: int) -> str:
    """Return a row's kind: 3, 13, 23, 33 missing; 5, 15, 25, 35 web page; 7, 17, 27, 37 slow; all others picture."""
    return {3: "missing", 5: "html", 7: "slow"}.get(number % 10, "ok")


def make_slice(root: DataRoot, web: Web, kind: Callable[[int], str] = faulty_web) -> Slice:
    """Write metadata of 40 rows, odd ones with a face; ``kind`` chooses the server's answer to a row."""
    rows: list[dict[str, object]] = [
        {
            "uid": hashlib.md5(str(number).encode()).hexdigest(),
            "url": web.url(kind(number), number),
            "text": f"Caption Nº {number}, [as] 'it' is",
            "face_bboxes": [BOX] if number % 2 else [],
            "sha256": "0" * 64,
        }
        for number in range(40)
    ]
    files = {"b.parquet": rows[25:], "a.parquet": rows[:25]}
    root.metadata.mkdir(parents=True)
    for name, part in files.items():
        pq.write_table(pa.Table.from_pylist(part), root.metadata / name)
    counts = {name: len(part) for name, part in files.items()}
    return Slice(root, DownloadInput(metadata_dir=root.metadata, metadata_sha256="ab" * 32, rows=counts), rows)
