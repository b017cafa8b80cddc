"""The downloader environment: built, reused, rebuilt, rejected."""

import contextlib
import multiprocessing
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import uv

from tasks.contracts.errors import DownloadError
from tasks.images import environment as module
from tasks.images.environment import (
    LOCK,
    MARKER,
    DownloaderEnvironment,
    build_environment,
    check_environment,
    find_environment,
)
from tests.tasks.small_disk import small_disk

pytestmark = pytest.mark.xdist_group("images")


def test_environment_imports_what_is_pinned(downloader: DownloaderEnvironment) -> None:
    versions = ["-I", "-c", "import cv2, importlib.metadata as m; print(cv2.__version__, m.version('img2dataset'))"]
    imported = subprocess.run([downloader.python, *versions], capture_output=True, text=True, check=True).stdout
    assert imported.split() == ["4.14.0", "1.47.0"]
    assert downloader.versions["opencv wheels"] == "opencv-python-headless"


def test_pins_cover_both_pythons_and_name_no_host() -> None:
    lines = [line for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    assert all("==" in line and "/" not in line and "@" not in line for line in lines)
    assert "img2dataset==1.47.0" in lines


def test_good_environment_is_reused(downloader: DownloaderEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_build", lambda *_: pytest.fail("built again"))
    assert build_environment(downloader.python.parents[1]) == downloader


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that was left incomplete, then built by two processes at once."""
    folder = tmp_path_factory.mktemp("rebuilt") / "env"
    venv = [uv.find_uv_bin(), "venv", "--quiet", "--prompt", module.PROMPT, "--python", sys.executable, folder]
    subprocess.run(venv, check=True)
    context = multiprocessing.get_context("spawn")
    builders = [context.Process(target=build_environment, args=(folder,)) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(120)
    assert [builder.exitcode for builder in builders] == [0, 0]
    return folder


def test_half_built_environment_is_rebuilt_even_by_two_at_once(rebuilt: Path) -> None:
    assert find_environment(rebuilt) is not None
    assert sorted(path.name for path in rebuilt.parent.iterdir()) == [".env.lock", "env"]


def test_environment_without_its_marker_is_not_good(rebuilt: Path) -> None:
    with without(rebuilt / MARKER):
        assert find_environment(rebuilt) is None


def test_environment_that_lost_a_package_is_not_good(rebuilt: Path) -> None:
    with without(next(rebuilt.glob("lib/python*/site-packages/img2dataset"))):
        assert find_environment(rebuilt) is None
        with pytest.raises(DownloadError, match="cannot import img2dataset"):
            check_environment(rebuilt)


@contextlib.contextmanager
def without(path: Path) -> Iterator[None]:
    """Remove a part of an environment while the block runs."""
    aside = path.rename(path.with_name("aside"))
    yield
    aside.rename(path)


def test_environment_of_another_lock_is_not_good(downloader: DownloaderEnvironment, tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(LOCK.read_text() + "# another\n")
    assert find_environment(downloader.python.parents[1], lock) is None


def test_imported_version_other_than_the_pin_is_refused(downloader: DownloaderEnvironment, tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(LOCK.read_text().replace("img2dataset==1.47.0", "img2dataset==1.40.0"))
    with pytest.raises(DownloadError, match=r"img2dataset 1\.47\.0, but 1\.40\.0 is pinned"):
        check_environment(downloader.python.parents[1], lock)


def test_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    with pytest.raises(DownloadError, match=r"download\.environment"):
        build_environment(folder)
    assert (folder / "letter.txt").read_text() == "dear"


def test_noexec_file_system_is_named(downloader: DownloaderEnvironment, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "size=900m,noexec") as disk:
        folder = disk.folder / "env"
        shutil.copytree(downloader.python.parents[1], folder, symlinks=True)
        with pytest.raises(DownloadError, match="mounted noexec") as error:
            check_environment(folder)
    assert "download.environment" in str(error.value)
    assert "Remove it" not in str(error.value)


def test_unreachable_index_gets_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(DownloadError, match="UV_DEFAULT_INDEX"):
        build_environment(tmp_path / "env")
    assert not (tmp_path / "env").exists()
