"""The command line of the official downloader, DataComp's download_upstream.py."""

from tasks.contracts.errors import SettingsError
from tasks.contracts.settings import DownloadSettings

FIXED = {"number_sample_per_shard": 10_000, "timeout": 10, "oom_shard_count": 8, "encode_quality": 95}
"""Values that are fixed by the script, or by img2dataset's defaults where the script does not set them."""


def validate_official_settings(settings: DownloadSettings) -> None:
    """Raise SettingsError for settings that the official downloader does not support."""
    faults = [
        f"download.{name}={getattr(settings, name)} (it has {value})"
        for name, value in FIXED.items()
        if getattr(settings, name) != value
    ]
    if not settings.blur_faces:
        faults.append("download.blur_faces=false (without face_bboxes in a sample, conversion would reject it)")
    if faults:
        raise SettingsError(
            f"the official downloader cannot honour {', '.join(faults)}; leave them out, or use "
            "download.downloader=current"
        )


def official_arguments(data_dir: str, metadata: str, settings: DownloadSettings) -> list[str]:
    """Return the tutorial's options of download_upstream.py, which writes into ``data_dir/shards``."""
    options = {
        "scale": "datacomp_1b",
        "data_dir": data_dir,
        "metadata_dir": metadata,
        "processes_count": settings.processes_count,
        "thread_count": settings.thread_count,
        "image_size": settings.image_size,
        "resize_mode": settings.resize_mode,
        "encode_format": settings.encode_format,
        "output_format": "webdataset",
        "retries": settings.retries,
    }
    flags = [] if settings.resize_only_if_bigger else ["--no_resize_only_if_bigger"]
    return [text for name, value in options.items() for text in (f"--{name}", str(value))] + flags
