"""The official downloader: its checkout, its pinned environment, and the shards that both downloaders write."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.contracts.errors import DownloadError, SettingsError
from tasks.contracts.settings import DownloadSettings
from tasks.images.checkout import check_out, verify_checkout
from tasks.images.environment import OFFICIAL_LOCK, DownloaderEnvironment
from tasks.images.interpreters import find_python, version_of
from tasks.images.official import official_arguments, validate_official_settings
from tasks.io.receipts import read_receipt
from tests.tasks.images.conftest import OFFICIAL, Slice
from tests.tasks.images.test_raw_samples import JSON_KEYS, change, row_number, samples
from tests.tasks.images.upstream import Upstream

pytestmark = pytest.mark.xdist_group("faults")

PINNED = """albumentations==1.3.0 cloudpathlib==0.13.0 exifread-nocycle==3.0.1 fsspec==2022.11.0
huggingface-hub==0.14.1 imageio==2.22.4 img2dataset==1.40.0 joblib==1.2.0 networkx==2.8.8 numpy==1.23.4
opencv-python-headless==4.6.0.66 pandas==1.5.1 pillow==9.3.0 protobuf==3.20.2 pyarrow==7.0.0
requests==2.28.1 scikit-image==0.19.3 scikit-learn==1.1.3 scipy==1.9.3 setuptools==65.5.0
threadpoolctl==3.1.0 tifffile==2022.10.10 tqdm==4.64.1 wandb==0.12.21 webdataset==0.2.31"""


@pytest.fixture
def official_settings(upstream: Upstream) -> DownloadSettings:
    return OFFICIAL.model_copy(update={"upstream_url": upstream.url, "upstream_commit": upstream.commit})


def test_list_of_pins_holds_the_tutorials() -> None:
    lines = OFFICIAL_LOCK.read_text().splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    assert listed[: len(PINNED.split())] == PINNED.split()
    assert [line for line in lines if line.startswith("opencv")] == ["opencv-python-headless==4.6.0.66"]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+", line) for line in listed)
    assert len({line.partition("==")[0] for line in listed}) == len(listed)


def test_environment_imports_the_pinned_opencv(official: DownloaderEnvironment) -> None:
    code = "import cv2, sys; print(cv2.__version__, sys.version_info[:2])"
    said = subprocess.run([official.python, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "4.6.0 (3, 10)"
    assert official.versions["opencv wheels"] == "opencv-python-headless"
    assert set(PINNED.split()) <= set(official.packages)


def test_official_download(official: DownloaderEnvironment, slice_: Slice, official_settings: DownloadSettings) -> None:
    check_out(slice_.root.upstream, official_settings.upstream_url, official_settings.upstream_commit)
    summary = slice_.download(official, official_settings)
    assert (summary.new_shards, summary.totals.attempts, summary.totals.successes) == (2, 40, 32)
    found = list(samples(slice_))
    assert {" ".join(meta) for meta, _, _ in found} == {JSON_KEYS}
    for meta, jpeg, _ in found:
        inside, _ = change(jpeg, row_number(meta))
        assert (inside > 10) == bool(meta["face_bboxes"])
    assert_noted(slice_, official, official_settings)


def assert_noted(slice_: Slice, official: DownloaderEnvironment, settings: DownloadSettings) -> None:
    """Check that the environment and the commit are recorded, and that a second run has nothing to do."""
    written = (slice_.root.path / "downloader-environment.txt").read_text()
    assert "opencv-python-headless==4.6.0.66" in written.splitlines() and "cv2 4.6.0" in written
    receipt = read_receipt(slice_.root.download / "receipt.json")
    assert receipt is not None
    assert receipt.settings["upstream_commit"] == settings.upstream_commit
    assert slice_.download(official, settings).new_shards == 0


@pytest.mark.parametrize(
    "setting",
    [
        {"timeout": 5},
        {"number_sample_per_shard": 15},
        {"encode_quality": 90},
        {"oom_shard_count": 6},
        {"blur_faces": False},
    ],
)
def test_setting_that_the_script_cannot_honour_is_refused(setting: dict[str, object]) -> None:
    settings = DownloadSettings.model_validate({"downloader": "official", **setting})
    with pytest.raises(SettingsError, match=rf"cannot honour download\.{next(iter(setting))}=.*downloader=current"):
        validate_official_settings(settings)


def test_tutorial_settings_are_passed_on() -> None:
    command = " ".join(official_arguments("/data/raw", "/data/raw/metadata", DownloadSettings(downloader="official")))
    assert command == (
        "--scale datacomp_1b --data_dir /data/raw --metadata_dir /data/raw/metadata --processes_count 16 "
        "--thread_count 128 --image_size 512 --resize_mode keep_ratio_largest --encode_format jpg "
        "--output_format webdataset --retries 2"
    )


def test_pinned_commit_is_checked_out_although_a_newer_one_is_there(upstream: Upstream, tmp_path: Path) -> None:
    script = check_out(tmp_path / "checkout", upstream.url, upstream.commit)
    assert "too new" not in script.read_text()
    assert check_out(tmp_path / "checkout", "no such repository", upstream.commit) == script
    assert sorted(path.name for path in tmp_path.iterdir()) == [".checkout.lock", "checkout"]


def test_changed_checkout_is_refused(upstream: Upstream, tmp_path: Path) -> None:
    script = check_out(tmp_path / "checkout", upstream.url, upstream.commit)
    script.write_text(script.read_text() + "# changed\n")
    with pytest.raises(DownloadError, match=r"was changed .*download_upstream\.py"):
        verify_checkout(tmp_path / "checkout", upstream.commit)


def test_module_that_would_be_imported_instead_is_refused(upstream: Upstream, tmp_path: Path) -> None:
    check_out(tmp_path / "checkout", upstream.url, upstream.commit)
    (tmp_path / "checkout" / "img2dataset.py").touch()
    with pytest.raises(DownloadError, match=r"was changed .*img2dataset\.py"):
        verify_checkout(tmp_path / "checkout", upstream.commit)


def test_checkout_of_another_commit_is_refused(upstream: Upstream, tmp_path: Path) -> None:
    check_out(tmp_path / "checkout", upstream.url, upstream.commit)
    with pytest.raises(DownloadError, match=f"is at commit {upstream.commit}, but {'0' * 40} is pinned"):
        verify_checkout(tmp_path / "checkout", "0" * 40)


def test_unreachable_repository_and_unknown_commit_say_what_to_do(upstream: Upstream, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"git clone failed.*download\.upstream_url"):
        check_out(tmp_path / "a", str(tmp_path / "nowhere.git"), upstream.commit)
    with pytest.raises(DownloadError, match=r"git checkout failed.*download\.upstream_url"):
        check_out(tmp_path / "b", upstream.url, "0" * 40)
    assert not (tmp_path / "a").exists() and not (tmp_path / "b").exists()


def test_python_is_found_by_version_by_path_and_in_pyenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ".".join(map(str, sys.version_info[:2]))
    assert find_python(sys.executable, own) == Path(sys.executable)
    assert version_of(find_python(own, None)) == own
    python = tmp_path / "versions" / "3.10.99" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 3.10\n")
    python.chmod(0o755)
    broken = tmp_path / "shims" / "python3.10"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{broken.parent}:/bin")
    assert find_python(None, "3.10") == python


def test_missing_python_says_how_to_provide_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match=r"no Python 3\.9 starts here.*pyenv install 3\.9.*download\.python"):
        find_python(None, "3.9")
    with pytest.raises(SettingsError, match=r"a Python \d\.\d+; 3\.9 is needed"):
        find_python(sys.executable, "3.9")
    with pytest.raises(SettingsError, match="does not start as a Python"):
        find_python("/nowhere/python", "3.9")
