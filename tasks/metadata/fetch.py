"""Fetch one pinned file from a Hugging Face hub into the metadata folder, unless it is there already."""

import itertools
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tasks.contracts.errors import MetadataError, TransientError
from tasks.io.files import fsync_folder
from tasks.io.fingerprints import Fingerprint
from tasks.metadata.hub import HubBusyError, Source, download, endpoint
from tasks.metadata.slices import Slice, SliceFile
from tasks.metadata.verify import byte_problems, compare, fingerprints_in, listed, verify_file

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 300.0
"""How long a busy hub is waited for in all, for one file and one try; the hub counts rates over five minutes."""

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
"""The pauses grow from the first to the second where the hub does not say how long it wants to be left alone."""


class FetchedFile(BaseModel):
    """What became of a pinned file: fetched, or found in place. ``moved_aside`` is where a wrong one went."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    fetched: bool
    moved_aside: str | None = None


class FetchJob(BaseModel):
    """One pinned file to fetch from ``source`` into the metadata folder ``folder``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path
    source: Source
    pin: SliceFile

    @property
    def path(self) -> Path:
        """Where the file belongs."""
        return self.folder / self.pin.name

    def cache_parts(self) -> dict[str, Any]:
        """What identifies the work: the pin, wherever the file comes from and lies."""
        return {"pin": self.pin.model_dump()}

    def is_done(self) -> bool:
        """Whether the pinned bytes are in place."""
        pinned = Fingerprint(name=self.pin.name, size=self.pin.bytes, sha256=self.pin.sha256)
        return fingerprints_in(self.folder).matches(self.path, pinned)


def fetch_jobs(folder: Path, slice_: Slice) -> list[FetchJob]:
    """One job a file of the slice, in the order of the names."""
    source = Source(slice_.repo_id, slice_.revision)
    return [FetchJob(folder=folder, source=source, pin=pin) for pin in slice_.files]


def fetch_file(job: FetchJob, patience: float = PATIENCE_SECONDS) -> FetchedFile:
    """Put the pinned file into its place. One that is there and right is not fetched: no hub is needed.

    A wrong one is moved aside first, under a name that the downloader does not read. The new one is downloaded
    into a hidden folder, verified, and renamed into place, so that a killed fetch leaves nothing that counts.
    ``patience``: seconds to wait in all for a busy hub. Raises MetadataError; TransientError where a retry may help.
    """
    path = job.path
    moved_aside = _move_aside_if_wrong(path, job.pin) if path.exists() else None
    fetched = not path.exists()
    if fetched:
        _fetch(job, patience)
    else:
        verify_file(path, job.pin, fingerprints_in(job.folder))
    _remove_leftovers(path)
    return FetchedFile(name=job.pin.name, fetched=fetched, moved_aside=moved_aside)


def _move_aside_if_wrong(path: Path, pin: SliceFile) -> str | None:
    """The new name of a file that is not the pinned one, None if it is."""
    if not path.is_file():
        raise MetadataError(f"{path} should be a file; move what lies there out of the way")
    fingerprints = fingerprints_in(path.parent)
    problems = byte_problems(path, pin, fingerprints)
    if not problems:
        return None
    aside = _free_name(path, fingerprints.of(path).sha256[:8])
    path.rename(aside)
    logger.warning("%s was not the pinned file (%s); it is now %s", path, "; ".join(problems), aside.name)
    return aside.name


def _free_name(path: Path, mark: str) -> Path:
    names = itertools.chain(
        [f"{path.name}.wrong-{mark}"], (f"{path.name}.wrong-{mark}-{n}" for n in itertools.count(2))
    )
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())


def _fetch(job: FetchJob, patience: float) -> None:
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=_leftover_prefix(job.path), dir=job.folder, ignore_cleanup_errors=True
        ) as temporary:
            _fetch_through(Path(temporary), job, patience)
    except FileNotFoundError as error:
        # Someone else put the right file in place and cleared up; a retry finds it.
        raise TransientError(f"{job.path} was fetched by another process at the same time: {error}") from None
    except OSError as error:
        raise MetadataError(
            f"cannot write {job.path}: {error}; make room there, or let this user write there"
        ) from None


def _fetch_through(temporary: Path, job: FetchJob, patience: float) -> None:
    arrived = download_patiently(job.source, job.pin.name, temporary, patience)
    _, problems = compare(arrived, job.pin, fingerprints_in(temporary))
    if problems:
        sent = f"what {endpoint()} sent for {job.pin.name} of {job.source.repo_id} is not the pinned file"
        raise MetadataError(listed(f"{sent}; it was thrown away:", problems))
    publish(arrived, job.path, job.pin)


def publish(arrived: Path, path: Path, pin: SliceFile) -> None:
    """Move a verified file to its place, durably, and note its hash. Raises OSError."""
    with arrived.open("rb") as file:
        os.fsync(file.fileno())
    arrived.replace(path)
    fsync_folder(path.parent)
    fingerprints_in(path.parent).remember(path, pin.sha256)
    logger.info("%s: fetched, %d bytes", path, pin.bytes)


def download_patiently(source: Source, name: str, folder: Path, patience: float = PATIENCE_SECONDS) -> Path:
    """Download, and wait for a hub that is busy: as long as it asks for, else twice as long each time.

    Raises MetadataError, TransientError, and OSError if ``folder`` cannot be written.
    """
    deadline = time.monotonic() + patience
    pause = SHORTEST_PAUSE_SECONDS
    while True:
        try:
            return download(source, name, folder)
        except HubBusyError as busy:
            wait = pause if busy.retry_after is None else max(busy.retry_after, SHORTEST_PAUSE_SECONDS)
            if time.monotonic() + wait > deadline:
                raise TransientError(
                    f"{busy}; it wants {wait:.0f} s more, patience ended at {patience:.0f} s"
                ) from None
            logger.warning("%s; waiting %.0f s", busy, wait)
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _leftover_prefix(path: Path) -> str:
    return f".fetch-{path.name}-"


def _remove_leftovers(path: Path) -> None:
    """Once the file is in place, nobody needs the folders that killed fetches of it have left."""
    for leftover in path.parent.glob(f"{_leftover_prefix(path)}*"):
        shutil.rmtree(leftover, ignore_errors=True)
