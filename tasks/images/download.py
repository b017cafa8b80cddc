"""Download the shards of a metadata slice: run img2dataset, believe only what it leaves on disk."""

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
    foreign_files,
    shard_states,
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

FOUND_DONE_SECONDS = 5.0
"""A run for another dataset of the root that finds its download finished is gone by then: no reason to fail."""


class DownloadSummary(BaseModel):
    """A finished download; ``new_shards`` is 0 if there was nothing left to do, ``improved_shards`` come of a retry.

    Failures are counted by kind; the receipt has them in the downloader's words.
    """

    model_config = ConfigDict(frozen=True)

    new_shards: int
    improved_shards: int = 0
    totals: DownloadTotals

    def in_words(self) -> str:
        """What there is now, in a line."""
        share = f"{self.totals.successes:,} of {self.totals.attempts:,} URLs gave a picture"
        improved = f", {self.improved_shards} improved" if self.improved_shards else ""
        return f"{self.totals.shards} shards ({self.new_shards} new{improved}), {share}"


def shards_left(root: DataRoot, source: DownloadInput, settings: DownloadSettings) -> list[ShardState]:
    """The shards that a download would still have to make, each with what it lacks."""
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
    """Make every shard of ``source`` be in ``root.shards``, resuming what is there, and leave a receipt.

    ``environment`` is asked for only if there is something to download. ``retry_failed`` fetches shards again
    whose failures were mostly transient, and keeps the better result of each.

    Raises BusyError if another download is at work in ``root``, DownloadError if ``root`` holds another download's
    shards or foreign files, if the download is in trouble, or if shards are left that do not come.
    """
    with one_writer(
        root.download, "download", root.path, run=observer.run, warn=observer.warn, patience=FOUND_DONE_SECONDS
    ):
        end_leftovers(MARK, mark(root.shards))
        work = identity(source, settings)
        claim(root, work)
        expected = expected_shards(source.rows, settings)
        refuse_foreign_files(root.shards, expected)
        finish_swap(root)
        left = shards_left(root, source, settings)
        if left:
            job = DownloadJob(root, source, settings, environment(), root.shards)
            _prepare(job)
            fetch(job, expected, observer)
        improved = retry(root, source, settings, environment, observer, _prepare) if retry_failed else 0
        # What a killed run left behind its last shard.
        shutil.rmtree(root.shards / "_tmp", ignore_errors=True)
        return _finish(root, work, source, settings, new_shards=len(left), improved_shards=improved)


def refuse_foreign_files(folder: Path, shards: list[ExpectedShard]) -> None:
    """Raise DownloadError if ``folder`` holds more than expected shards: that breaks img2dataset's resume."""
    foreign = foreign_files(folder, shards)
    if foreign:
        raise DownloadError(
            f"{folder} holds {len(foreign)} files that belong to no expected shard: {first(foreign)}. "
            "Move them elsewhere; only img2dataset writes into this folder."
        )


def _prepare(job: DownloadJob) -> None:
    """Note with what is downloaded from now on; the receipt no longer holds."""
    (job.root.download / "receipt.json").unlink(missing_ok=True)
    known = _downloaders(job.root)
    text = job.environment.resolved.encode()
    write_bytes(environment_file(job.root, job.settings), text)
    this = {"lock": job.environment.lock_sha256, "environment": hashlib.sha256(text).hexdigest()}
    if this not in known:
        write_json(job.root.download / "downloaders.json", sorted([*known, this], key=canonical_json))


def environment_file(root: DataRoot, settings: DownloadSettings) -> Path:
    """Where the resolved environment of the downloader is written down."""
    name = "downloader-environment" + ("" if settings.downloader == "official" else "-current")
    return root.path / f"{name}.txt"


def _finish(
    root: DataRoot, work: Receipt, source: DownloadInput, settings: DownloadSettings, **new: int
) -> DownloadSummary:
    states = shard_states(root.shards, expected_shards(source.rows, settings))
    totals = add_up(state.stats for state in states if state.stats)
    downloaders = {"downloaders": _downloaders(root)}
    receipt = work.model_copy(update={"inputs": work.inputs | downloaders, "counts": totals.model_dump()})
    path = root.download / "receipt.json"
    if read_receipt(path) != receipt:
        receipt.write(path)
    return DownloadSummary(**new, totals=totals.in_kinds())


def _downloaders(root: DataRoot) -> list[dict[str, str]]:
    """SHA-256 of the pins, and of the list of what was installed, of every environment that wrote shards here."""
    path = root.download / "downloaders.json"
    return json.loads(path.read_bytes()) if path.exists() else []
