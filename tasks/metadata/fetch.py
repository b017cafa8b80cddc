"""Fetching one pinned file from a Hugging Face hub into the metadata folder, unless it is there already."""

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
from tasks.metadata.verify import bullet_list, byte_problems, compare, fingerprints_in, verify_file

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 300.0
"""Total wait for a busy hub, per file and task run; the hub counts its rate limit over five minutes."""

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
"""The pauses grow from the first to the second if the hub sends no Retry-After."""


class FetchedFile(BaseModel):
    """The result for a pinned file: fetched or found in place. ``moved_aside`` is the new name of a wrong file."""

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
        """Path of the file in the metadata folder."""
        return self.folder / self.pin.name

    def cache_parts(self) -> dict[str, Any]:
        """Return what identifies the work: the pin, independent of source and folder."""
        return {"pin": self.pin.model_dump()}

    def is_done(self) -> bool:
        """Return whether the pinned bytes are in place."""
        pinned = Fingerprint(name=self.pin.name, size=self.pin.bytes, sha256=self.pin.sha256)
        return fingerprints_in(self.folder).matches(self.path, pinned)


def fetch_jobs(folder: Path, slice_: Slice) -> list[FetchJob]:
    """Return one job per file of the slice, ordered by name."""
    source = Source(slice_.repo_id, slice_.revision)
    return [FetchJob(folder=folder, source=source, pin=pin) for pin in slice_.files]


def fetch_file(job: FetchJob, patience: float = PATIENCE_SECONDS) -> FetchedFile:
    """Fetch the pinned file unless it is in place; a valid file in place needs no hub.

    Move a wrong file aside first, under a name that the downloader does not read. Download the new one into a hidden
    folder, verify it and rename it into place, so that a killed fetch never leaves a partial file in place.
    ``patience``: total seconds to wait for a busy hub. Raises MetadataError; TransientError where a retry may help.
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
    """Rename a file that is not the pinned one and return its new name; return None if it is the pinned one."""
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
            _fetch_into(Path(temporary), job, patience)
    except FileNotFoundError as error:
        # Another process put the pinned file in place and removed the temporary folder; a retry finds the file.
        raise TransientError(f"{job.path} was fetched by another process at the same time: {error}") from None
    except OSError as error:
        raise MetadataError(
            f"cannot write {job.path}: {error}; make room there, or let this user write there"
        ) from None


def _fetch_into(temporary: Path, job: FetchJob, patience: float) -> None:
    arrived = download_patiently(job.source, job.pin.name, temporary, patience)
    _, problems = compare(arrived, job.pin, fingerprints_in(temporary))
    if problems:
        sent = f"what {endpoint()} sent for {job.pin.name} of {job.source.repo_id} is not the pinned file"
        raise MetadataError(bullet_list(f"{sent}; it was thrown away:", problems))
    publish(arrived, job.path, job.pin)


def publish(arrived: Path, path: Path, pin: SliceFile) -> None:
    """Move a verified file durably into place and record its hash. Raises OSError."""
    with arrived.open("rb") as file:
        os.fsync(file.fileno())
    arrived.replace(path)
    fsync_folder(path.parent)
    fingerprints_in(path.parent).remember(path, pin.sha256)
    logger.info("%s: fetched, %d bytes", path, pin.bytes)


def download_patiently(source: Source, name: str, folder: Path, patience: float = PATIENCE_SECONDS) -> Path:
    """Download a file; wait while the hub is busy, as long as it asks for, else with growing pauses.

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
    """Remove temporary folders of killed fetches; they are useless once the file is in place."""
    for leftover in path.parent.glob(f"{_leftover_prefix(path)}*"):
        shutil.rmtree(leftover, ignore_errors=True)
