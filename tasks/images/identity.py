"""The identity of a download in a data root: the rows and settings that determine the content of each shard."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tasks.contracts.errors import DownloadError
from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import DownloadSettings
from tasks.images.completion import first
from tasks.io.fingerprints import Fingerprint, Fingerprints
from tasks.io.receipts import Receipt, read_receipt

STAGE_VERSION = 1
CHANGES_OUTPUT = {
    "image_size",
    "resize_mode",
    "resize_only_if_bigger",
    "encode_format",
    "encode_quality",
    "number_sample_per_shard",
    "blur_faces",
    "oom_shard_count",
}
"""Settings that determine content or names of shards; all others only affect the speed."""


class DownloadInput(BaseModel):
    """The input of a download: the metadata folder, the hash of its manifest, and file name -> rows.

    ``files`` are the fingerprints of the pinned files; if given, they are verified before every run.
    """

    model_config = ConfigDict(frozen=True)

    metadata_dir: Path
    metadata_sha256: str
    rows: dict[str, int]
    files: tuple[Fingerprint, ...] = ()


def identity(source: DownloadInput, settings: DownloadSettings) -> Receipt:
    """Return the receipt that identifies a download: only a download with an equal one may be resumed."""
    return Receipt(
        stage="download",
        stage_version=STAGE_VERSION,
        inputs={"metadata_sha256": source.metadata_sha256, "rows": source.rows},
        settings={**_downloader_settings(settings), **settings.model_dump(mode="json", include=CHANGES_OUTPUT)},
    )


def _downloader_settings(settings: DownloadSettings) -> dict[str, str]:
    if settings.downloader == "official":
        return {"downloader": "official", "upstream_commit": settings.upstream_commit}
    return {"downloader": "current"}


def claim(root: DataRoot, work: Receipt) -> None:
    """Record that the shards of ``root`` belong to ``work``, unless that is recorded already.

    Raises DownloadError if ``root`` holds shards of another or unknown download: shards are numbered by position in
    the metadata, so resuming them would silently mix rows.
    """
    path = root.download / "identity.json"
    earlier = read_receipt(path)
    if earlier and earlier.is_for(work):
        return
    names = _shard_names(root.shards)
    if names:
        raise DownloadError(_mismatch_message(root.shards, names, work, earlier))
    work.write(path)


def check_metadata_files(source: DownloadInput) -> None:
    """Check that ``*.parquet``, which img2dataset reads, matches exactly the pinned files. Raises DownloadError."""
    found = {path.name for path in source.metadata_dir.glob("*.parquet")}
    missing, stray = sorted(source.rows.keys() - found), sorted(found - source.rows.keys())
    if missing or stray:
        raise DownloadError(
            f"{source.metadata_dir} is not the pinned metadata: missing {missing or 'none'}, not pinned "
            f"{stray or 'none'}. Run download-metadata, and move files that are not pinned elsewhere."
        )
    recorded = Fingerprints(source.metadata_dir / ".fingerprints")
    changed = [file.name for file in source.files if not recorded.matches(source.metadata_dir / file.name, file)]
    if changed:
        raise DownloadError(
            f"{first(changed)} in {source.metadata_dir} changed since the download began: the shards would be of "
            "other rows. Run download-metadata, which moves wrong files aside and fetches the pinned ones."
        )


def _shard_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "_tmp") if folder.exists() else []


def _mismatch_message(shards: Path, names: list[str], work: Receipt, earlier: Receipt | None) -> str:
    if earlier is None:
        return (
            f"{shards} holds {len(names)} files ({first(names)}), but nothing notes which metadata and settings "
            "they were downloaded with, so they cannot be resumed. Move them elsewhere or use another data root; "
            "audit-download and convert-dataset take shards of any origin as they are."
        )
    changed = [f"{name} was {was!r}, is {now!r}" for name, was, now in _differences(earlier, work)]
    return (
        f"The shards in {shards} are of another download: {'; '.join(changed)}. Shard numbers would mean "
        "other rows or other images. Go back to the earlier settings, or use another data root."
    )


def _differences(earlier: Receipt, work: Receipt) -> list[tuple[str, object, object]]:
    before = {"stage_version": earlier.stage_version, **earlier.inputs, **earlier.settings}
    after = {"stage_version": work.stage_version, **work.inputs, **work.settings}
    names = sorted(before.keys() | after.keys())
    return [(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]
