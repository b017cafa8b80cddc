"""download-images: download the images of a slice with img2dataset; resume from existing shards."""

from prefect import flow

from tasks.contracts.layout import DataRoot, GivenPath, absolute
from tasks.contracts.settings import DownloadSettings
from tasks.images.download import DownloadSummary
from tasks.images.identity import DownloadInput
from tasks.images.task import fetch_images
from tasks.io.failure_note import failure_noted
from tasks.io.fingerprints import Fingerprint, Verify
from tasks.metadata.slices import Slice, load_slice
from tasks.metadata.task import look_at_metadata, write_metadata_manifest
from tasks.running.outcomes import ends_in_words, run_task


@flow(name="download-images", flow_run_name="images of {dataset_slice} in {root}")
@ends_in_words
def download_images(
    root: GivenPath,
    dataset_slice: str = "datacomp-1b-tutorial",
    download: DownloadSettings | None = None,
    verify: Verify = "changed",
    retry_failed: bool = False,
) -> DownloadSummary:
    """Verify the slice's metadata again, then make every expected shard be there.

    Args:
        root: Data root; the shards go to raw/shards in it.
        dataset_slice: Slice: the name of a shipped one, or the path of a YAML file.
        download: How to download; what is left out comes from the slice.
        verify: changed: trust noted hashes of unchanged metadata; full: hash it again.
        retry_failed: Fetch shards again whose failures were mostly transient, and keep the better result of each.
    """
    data = DataRoot(absolute(root))
    slice_ = load_slice(dataset_slice)
    settings = slice_.download_settings(download or DownloadSettings())
    data.download.mkdir(parents=True, exist_ok=True)
    with failure_noted(data.download, "download"):
        manifest = run_task(write_metadata_manifest, data.metadata, slice_, verify)
        run_task(look_at_metadata, data.metadata, slice_, settings)
        source = _download_input(data, slice_, manifest.metadata_sha256)
        return fetch_images(slice_.name, data.path, source, settings, retry_failed)


def _download_input(data: DataRoot, slice_: Slice, metadata_sha256: str) -> DownloadInput:
    return DownloadInput(
        metadata_dir=data.metadata,
        metadata_sha256=metadata_sha256,
        rows={file.name: file.rows for file in slice_.files},
        files=tuple(Fingerprint(name=file.name, size=file.bytes, sha256=file.sha256) for file in slice_.files),
    )


if __name__ == "__main__":
    from cli.program import run_program

    run_program(download_images)
