"""The download of a metadata slice: runs img2dataset and trusts only the files that it leaves on disk."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tasks.contracts.errors import DownloadError
from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import DownloadSettings
from tasks.images.command import MARK, DownloadJob, mark
from tasks.images.completion import (
    ExpectedShard,
    ShardState,
    expected_shards,
    first,
    shard_states,
    unexpected_files,
)
from tasks.images.environment import DownloaderEnvironment
from tasks.images.identity import DownloadInput, claim, identity
from tasks.images.process import end_leftovers
from tasks.images.retry import finish_swap, retry
from tasks.images.supervise import Observer, fetch
from tasks.images.totals import DownloadTotals, add_up
from tasks.io.files import canonical_json, write_bytes, write_json
from tasks.io.folder_lock import one_writer
from tasks.io.receipts import Receipt, read_receipt

LOCK_WAIT_SECONDS = 5.0
"""Wait for the download lock: another dataset's run that finds its download finished releases it sooner."""


class DownloadSummary(BaseModel):
    """A finished download: ``new_shards`` is 0 if none were missing; ``improved_shards`` were replaced by a retry.

    Failures are counted by kind; the receipt has the downloader's original reasons.
    """

    model_config = ConfigDict(frozen=True)

    new_shards: int
    improved_shards: int = 0
    totals: DownloadTotals

    def in_words(self) -> str:
        """Return the summary in a line."""
        share = f"{self.totals.successes:,} of {self.totals.attempts:,} URLs gave a picture"
        improved = f", {self.improved_shards} improved" if self.improved_shards else ""
        return f"{self.totals.shards} shards ({self.new_shards} new{improved}), {share}"


def shards_left(root: DataRoot, source: DownloadInput, settings: DownloadSettings) -> list[ShardState]:
    """Return the shards that are still to be downloaded, each with its reason."""
    states = shard_states(root.shards, expected_shards(source.rows, settings))
    return [state for state in states if not state.done]


def download_shards(
    root: DataRoot,
    source: DownloadInput,
    settings: DownloadSettings,
    environment: Callable[[], DownloaderEnvironment],
    observer: Observer = Observer(),
    retry_failed: bool = False,
) -> DownloadSummary:
    """Download every missing shard of ``source`` into ``root.shards`` and write a receipt.

    ``environment`` is called only if there is something to download. ``retry_failed`` downloads shards again whose
    failures were mostly transient, and keeps the better result of each.

    Raises BusyError if another download runs in ``root``. Raises DownloadError if ``root`` holds another download's
    shards or unexpected files, if too many attempts fail, or if shards are missing after the last restart.
    """
    with one_writer(
        root.download, "download", root.path, run=observer.run, warn=observer.warn, patience=LOCK_WAIT_SECONDS
    ):
        end_leftovers(MARK, mark(root.shards))
        work = identity(source, settings)
        claim(root, work)
        expected = expected_shards(source.rows, settings)
        check_unexpected_files(root.shards, expected)
        finish_swap(root)
        left = shards_left(root, source, settings)
        if left:
            job = DownloadJob(root, source, settings, environment(), root.shards)
            _prepare(job)
            fetch(job, expected, observer)
        improved = retry(root, source, settings, environment, observer, _prepare) if retry_failed else 0
        # A run that was killed after its last shard leaves this folder.
        shutil.rmtree(root.shards / "_tmp", ignore_errors=True)
        return _finish(root, work, source, settings, new_shards=len(left), improved_shards=improved)


def check_unexpected_files(folder: Path, shards: list[ExpectedShard]) -> None:
    """Raise DownloadError if ``folder`` holds unexpected files: they break img2dataset's resume."""
    unexpected = unexpected_files(folder, shards)
    if unexpected:
        raise DownloadError(
            f"{folder} holds {len(unexpected)} files that belong to no expected shard: {first(unexpected)}. "
            "Move them elsewhere; only img2dataset writes into this folder."
        )


def _prepare(job: DownloadJob) -> None:
    """Remove the receipt, which is stale from now on, and record the downloader environment."""
    (job.root.download / "receipt.json").unlink(missing_ok=True)
    known = _read_downloaders(job.root)
    text = job.environment.resolved.encode()
    write_bytes(environment_file(job.root, job.settings), text)
    this = {"lock": job.environment.lock_sha256, "environment": hashlib.sha256(text).hexdigest()}
    if this not in known:
        write_json(job.root.download / "downloaders.json", sorted([*known, this], key=canonical_json))


def environment_file(root: DataRoot, settings: DownloadSettings) -> Path:
    """Return the path of the file that lists the packages of the downloader environment."""
    name = "downloader-environment" + ("" if settings.downloader == "official" else "-current")
    return root.path / f"{name}.txt"


def _finish(
    root: DataRoot, work: Receipt, source: DownloadInput, settings: DownloadSettings, **new: int
) -> DownloadSummary:
    states = shard_states(root.shards, expected_shards(source.rows, settings))
    totals = add_up(state.stats for state in states if state.stats)
    downloaders = {"downloaders": _read_downloaders(root)}
    receipt = work.model_copy(update={"inputs": work.inputs | downloaders, "counts": totals.model_dump()})
    path = root.download / "receipt.json"
    if read_receipt(path) != receipt:
        receipt.write(path)
    return DownloadSummary(**new, totals=totals.in_kinds())


def _read_downloaders(root: DataRoot) -> list[dict[str, str]]:
    """Read the SHA-256 of pins and of installed packages for every environment that wrote shards here."""
    path = root.download / "downloaders.json"
    return json.loads(path.read_bytes()) if path.exists() else []
