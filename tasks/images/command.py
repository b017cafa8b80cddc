"""Arguments, command line and environment variables of the downloader."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.contracts.errors import SettingsError
from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import DownloadSettings
from tasks.downloader_startup import VARIABLE
from tasks.images.checkout import verify_checkout
from tasks.images.environment import DownloaderEnvironment, clean_environ
from tasks.images.identity import DownloadInput, check_metadata_files
from tasks.images.official import official_arguments, validate_official_settings
from tasks.io.files import write_json
from tasks.io.metadata_columns import plain_metadata

RUNNER = Path(__file__).with_name("run_img2dataset.py")
SHARED_SETTINGS = {
    "processes_count",
    "thread_count",
    "image_size",
    "resize_mode",
    "resize_only_if_bigger",
    "encode_format",
    "encode_quality",
    "retries",
    "timeout",
    "number_sample_per_shard",
    "oom_shard_count",
    "user_agent_token",
}
"""Settings that img2dataset has under the same name."""
MARK = "DATACOMP_ENERGON_DOWNLOAD"
"""Environment variable of every downloader process (value: the shard folder), used to find leftovers."""


@dataclass(frozen=True)
class DownloadJob:
    """One download: fill ``shards`` (of the data root, or of a retry) with the rows of ``source``."""

    root: DataRoot
    source: DownloadInput
    settings: DownloadSettings
    environment: DownloaderEnvironment
    shards: Path


def img2dataset_arguments(metadata: Path, shards: Path, settings: DownloadSettings) -> dict[str, Any]:
    """Return the arguments of ``img2dataset.download`` (1.47.0) for one data root.

    The order of the saved columns decides the order of keys in a sample's JSON; it matches the official
    downloader. Raises SettingsError for a path that img2dataset would read as a pattern.
    """
    columns = {"save_additional_columns": ["uid"], "bbox_col": "face_bboxes"}
    unblurred = {"save_additional_columns": ["uid", "face_bboxes"], "bbox_col": None}
    return {
        "url_list": _plain_path(metadata),
        "input_format": "parquet",
        "url_col": "url",
        "caption_col": "text",
        "output_folder": _plain_path(shards),
        "output_format": "webdataset",
        "compute_hash": "sha256",
        "incremental_mode": "incremental",
        "enable_wandb": False,
        **(columns if settings.blur_faces else unblurred),
        **settings.model_dump(include=SHARED_SETTINGS),
    }


def downloader_command(job: DownloadJob) -> list[str]:
    """Check the inputs of ``job`` and return its command line; called before each run, resumed or not.

    Raises SettingsError or DownloadError if the metadata, the official checkout or a setting is invalid.
    """
    check_metadata_files(job.source)
    python = str(job.environment.python)
    readable = plain_metadata(job.source.metadata_dir, job.source.rows, job.root.download / "metadata")
    if job.settings.downloader == "official":
        validate_official_settings(job.settings)
        script = verify_checkout(job.root.upstream, job.settings.upstream_commit)
        data_dir, metadata = _plain_path(job.shards.parent), _plain_path(readable)
        # Not -I: the script imports from its own folder. -E and -s still exclude other packages.
        return [python, "-E", "-s", "-u", str(script), *official_arguments(data_dir, metadata, job.settings)]
    arguments = img2dataset_arguments(readable, job.shards, job.settings)
    arguments_file = job.root.download / "img2dataset.json"
    write_json(arguments_file, arguments)
    return [python, "-I", "-u", str(RUNNER), str(arguments_file)]


def command_environ(job: DownloadJob) -> dict[str, str]:
    """Return the environment variables of the downloader; they disable albumentations' update check.

    The downloader exits unless this process is its parent.
    """
    settings = job.settings
    start = {
        "parent": os.getpid(),
        "seconds": settings.response_timeout,
        "bytes": settings.response_megabytes * 1_000_000,
        "allow_private_hosts": settings.allow_private_hosts,
        # The current img2dataset handles the token itself.
        "user_agent_token": settings.user_agent_token if settings.downloader == "official" else None,
    }
    ours = {"NO_ALBUMENTATIONS_UPDATE": "1", MARK: mark(job.root.shards), VARIABLE: json.dumps(start)}
    return clean_environ() | ours


def mark(shards: Path) -> str:
    """Return the value of ``MARK`` for downloader processes of this shard folder."""
    return str(shards.resolve())


def _plain_path(path: Path) -> str:
    text = str(path.absolute())
    bad = [sign for sign in ("*", "?", "[", "::", "://") if sign in text]
    if bad:
        raise SettingsError(
            f"img2dataset would take {bad[0]!r} in {text} for part of a pattern or address. "
            "Choose a data root whose path has none of * ? [ ::"
        )
    return text
