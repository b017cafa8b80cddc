"""Write one output tar: byte ranges of the raw tars and a conversation for each sample."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO

from tasks.convert.models import OutputTar, Plan, WriteJob, WrittenTar
from tasks.convert.plan_files import read_plan, read_samples
from tasks.convert.sample import conversation_json, parse
from tasks.convert.scan import sample_digest
from tasks.errors import PlanError, ShardError
from tasks.files import atomic_file


class _HashedFile:
    """A file that hashes what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self.file.write(data)

    def tell(self) -> int:
        return self.file.tell()


def write_tar(job: WriteJob) -> WrittenTar:
    """Write a tar of the plan and its receipt. Work that a valid receipt tells of is not done again.

    Raises ShardError if a raw tar's bytes are no longer those that were scanned, PlanError if the plan has
    gone, OSError as the file system does.
    """
    done = job.finished()
    if done is not None:
        return done
    plan, tar = _planned(job)
    with atomic_file(job.path, staging=job.folder.staging) as file:
        hashed = _HashedFile(file)
        samples = _write_members(hashed, job, plan, tar)
    if samples != tar.samples:
        raise PlanError(f"{job.filename}: the plan counts {tar.samples} samples, its rows give {samples}; plan again")
    output = job.folder.fingerprints().remember(job.path, hashed.sha256.hexdigest())
    job.receipt(output, samples).write(job.receipt_path)
    return WrittenTar(output=output, samples=samples)


def _planned(job: WriteJob) -> tuple[Plan, OutputTar]:
    plan = read_plan(job.folder)
    if plan is None or plan.identity != job.plan_identity:
        raise PlanError(f"{job.folder.plan} is not the plan that {job.filename} belongs to; start the conversion again")
    return plan, next(tar for tar in plan.tars if tar.filename == job.filename)


def _write_members(file: _HashedFile, job: WriteJob, plan: Plan, tar: OutputTar) -> int:
    source = {"dataset": plan.settings["source_dataset"], "revision": plan.settings["source_revision"]}
    written = 0
    # Without an end-to-end buffer of its own: tarfile pads the end to its record size by itself.
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:  # type: ignore[call-overload]
        for uid, jpg, json_bytes, txt in _raw_samples(job, tar):
            record, caption = parse(json_bytes, txt)
            conversation = conversation_json(record, caption, plan.settings["prompt"], source)
            _add(archive, f"{uid}.image.jpg", jpg)
            _add(archive, f"{uid}.conversation.json", conversation)
            archive.members = []  # tarfile would keep every header in memory
            written += 1
    return written


def _raw_samples(job: WriteJob, tar: OutputTar) -> Iterator[tuple[str, bytes, bytes, bytes]]:
    """uid, JPG, JSON and TXT of every sample of the tar, held against the digest of the scan."""
    with ExitStack() as stack:
        name, file = None, None
        for row in read_samples(job.folder, tar).to_pylist():
            if file is None or row["raw_tar"] != name:
                stack.close()
                name = row["raw_tar"]
                file = stack.enter_context((job.source_dir / name).open("rb"))
            yield row["uid"], *_members(file, row)


def _members(file: BinaryIO, row: dict[str, Any]) -> tuple[bytes, bytes, bytes]:
    jpg, json_bytes, txt = (_read(file, row[f"{m}_offset"], row[f"{m}_size"]) for m in ("jpg", "json", "txt"))
    if sample_digest(jpg, json_bytes, txt) != row["digest"]:
        raise ShardError(
            f"{row['raw_tar']}, key {row['key'].decode('utf-8', 'backslashreplace')}: the bytes are not those that "
            "were scanned; the shard changed in between: restore it, or convert into a new folder with verify=full"
        )
    return jpg, json_bytes, txt


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """A member with nothing in its header but name and size: mode 0644, owner 0, no time."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o644
    archive.addfile(info, io.BytesIO(data))
