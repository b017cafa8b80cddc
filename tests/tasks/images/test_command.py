"""The command line and settings that img2dataset receives."""

import json
import os
from pathlib import Path

import pytest

from tasks.contracts.errors import SettingsError
from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import DownloadSettings
from tasks.images.command import (
    SHARED_SETTINGS,
    DownloadJob,
    command_environ,
    downloader_command,
    img2dataset_arguments,
)
from tasks.images.environment import DownloaderEnvironment
from tasks.images.identity import DownloadInput
from tests.tasks.metadata.samples import write


def test_tutorial_settings_reach_img2dataset(tmp_path: Path) -> None:
    given = img2dataset_arguments(tmp_path / "metadata", tmp_path / "shards", DownloadSettings())
    expected = {
        "processes_count": 16,
        "thread_count": 128,
        "image_size": 512,
        "resize_mode": "keep_ratio_largest",
        "resize_only_if_bigger": True,
        "encode_format": "jpg",
        "retries": 2,
        "number_sample_per_shard": 10_000,
        "oom_shard_count": 8,
        "save_additional_columns": ["uid"],
        "bbox_col": "face_bboxes",
        "output_format": "webdataset",
    }
    assert {name: given[name] for name in expected} == expected


def test_every_download_setting_is_passed_on_or_used_by_us() -> None:
    ours = {"downloader", "environment", "python", "upstream_url", "upstream_commit", "blur_faces"}
    watch = {"response_timeout", "response_megabytes", "stall_timeout", "stall_restarts", "trouble"}
    judged = {"expected_success_rate", "accepted_findings", "allow_private_hosts"}
    assert SHARED_SETTINGS | ours | watch | judged == set(DownloadSettings.model_fields)


def test_without_blurring_the_boxes_are_still_saved(tmp_path: Path) -> None:
    given = img2dataset_arguments(tmp_path, tmp_path, DownloadSettings(blur_faces=False))
    assert given["bbox_col"] is None
    assert given["save_additional_columns"] == ["uid", "face_bboxes"]


def job(root: Path, **settings: object) -> DownloadJob:
    """Return a job whose metadata exists; start nothing."""
    data = DataRoot(root)
    data.metadata.mkdir(parents=True)
    write(data.metadata / "a.parquet")
    source = DownloadInput(metadata_dir=data.metadata, metadata_sha256="", rows={"a.parquet": 1})
    environment = DownloaderEnvironment(Path("python"), "", {})
    return DownloadJob(data, source, DownloadSettings.model_validate(settings), environment, data.shards)


def test_values_are_written_as_they_stand(tmp_path: Path) -> None:
    root = tmp_path / "a, (b) {c}"
    command = downloader_command(job(root, user_agent_token="1e5"))
    written = json.loads(Path(command[-1]).read_text())
    assert (written["url_list"], written["user_agent_token"]) == (str(root / "raw" / "metadata"), "1e5")


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?b", "a::b"])
def test_path_that_img2dataset_takes_for_a_pattern_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="Choose a data root"):
        img2dataset_arguments(tmp_path / name, tmp_path, DownloadSettings())


def test_downloader_sees_nothing_of_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "ours")
    environ = command_environ(job(tmp_path))
    assert "ours" not in environ.values()
    assert environ["NO_ALBUMENTATIONS_UPDATE"] == "1"
    assert environ["PATH"] == os.environ["PATH"]
