"""What img2dataset is told: its arguments, command line and environment variables."""

import os
from pathlib import Path
from typing import Any

from tasks.errors import SettingsError
from tasks.files import write_json
from tasks.images.environment import clean_environ
from tasks.settings import DownloadSettings

RUNNER = Path(__file__).with_name("run_img2dataset.py")
PASSED_ON = {
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
"""Settings that img2dataset knows under the same name."""
MARK = "DATACOMP_ENERGON_DOWNLOAD"
"""Environment variable of every downloader process (value: the shard folder), by which leftovers are found."""


def img2dataset_arguments(metadata: Path, shards: Path, settings: DownloadSettings) -> dict[str, Any]:
    """The arguments of ``img2dataset.download`` (1.47.0) for one data root.

    The order of the saved columns decides the order of keys in a sample's JSON; it is that of the official
    downloader. Raises SettingsError for a path that img2dataset would take for a pattern.
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
        **settings.model_dump(include=PASSED_ON),
    }


def write_command(python: Path, arguments_file: Path, arguments: dict[str, Any]) -> list[str]:
    """Write the arguments down and give the command line that runs img2dataset with them.

    ``-I`` keeps this package, the user's site-packages and PYTHON… variables away from it. The command ends
    if it is not started by this very process.
    """
    write_json(arguments_file, arguments)
    return [str(python), "-I", "-u", str(RUNNER), str(arguments_file), str(os.getpid())]


def command_environ(shards: Path) -> dict[str, str]:
    """The environment variables of the downloader; albumentations must not ask for updates."""
    return clean_environ() | {"NO_ALBUMENTATIONS_UPDATE": "1", MARK: mark(shards)}


def mark(shards: Path) -> str:
    """What downloader processes of this shard folder carry in ``MARK``."""
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
