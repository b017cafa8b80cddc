"""The writing of one output tar: byte ranges of the raw tars, and a conversation for each sample."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO

from tasks.contracts.errors import PlanError, ShardError
from tasks.convert.models import PlannedTar, WriteJob, WrittenTar
from tasks.convert.output_tar import OutputTar
from tasks.convert.plan_files import PlannedTars, plan_and_tar, read_samples
from tasks.convert.sample import conversation_json, parse
from tasks.convert.scan import sample_digest
from tasks.io.byte_ranges import Content, read_sample
from tasks.io.files import atomic_file
from tasks.io.raw_tar import SAMPLE_MEMBERS

_ROWS_AT_A_TIME = 1000


def write_tar(job: WriteJob) -> WrittenTar:
    """Write a tar of the plan and its receipt, unless a valid receipt exists.

    Raises ShardError if a raw tar's bytes changed since the scan, PlanError if the plan is missing or a different
    one, OSError for file system errors.
    """
    done = job.finished()
    if done is not None:
        return done
    plan, tar = _planned(job)
    with atomic_file(job.path, staging=job.folder.staging) as file, OutputTar(file) as output:
        samples = _write_members(output, job, plan, tar)
        sha256 = output.close()
    if samples != tar.samples:
        raise PlanError(f"{job.filename}: the plan counts {tar.samples} samples, its rows give {samples}; plan again")
    written = job.folder.fingerprints().remember(job.path, sha256)
    job.receipt(written, samples).write(job.receipt_path)
    return WrittenTar(output=written, samples=samples)


def _planned(job: WriteJob) -> tuple[PlannedTars, PlannedTar]:
    planned = plan_and_tar(job.folder, job.plan_identity, job.filename)
    if planned is None:
        raise PlanError(f"{job.folder.plan} is not the plan that {job.filename} belongs to; start the conversion again")
    return planned


def _write_members(output: OutputTar, job: WriteJob, plan: PlannedTars, tar: PlannedTar) -> int:
    source = {"dataset": plan.settings["source_dataset"], "revision": plan.settings["source_revision"]}
    written = 0
    for uid, jpg, json_bytes, txt in _raw_samples(job, tar):
        record, caption = parse(json_bytes, txt)
        output.add(f"{uid}.image.jpg", jpg)
        output.add(f"{uid}.conversation.json", conversation_json(record, caption, plan.settings["prompt"], source))
        written += 1
    return written


def _raw_samples(job: WriteJob, tar: PlannedTar) -> Iterator[tuple[str, Content, bytes, bytes]]:
    """Yield uid, JPG, JSON and TXT of every sample of the tar, checked against the digest of the scan."""
    with ExitStack() as stack:
        name, file = None, None
        for row in _rows(job, tar):
            if file is None or row["raw_tar"] != name:
                stack.close()
                name = row["raw_tar"]
                file = stack.enter_context((job.source_dir / name).open("rb"))
            yield row["uid"], *_members(file, row)


def _rows(job: WriteJob, tar: PlannedTar) -> Iterator[dict[str, Any]]:
    for batch in read_samples(job.folder, tar).to_batches(max_chunksize=_ROWS_AT_A_TIME):
        yield from batch.to_pylist()


def _members(file: BinaryIO, row: dict[str, Any]) -> tuple[Content, bytes, bytes]:
    ranges = [(row[f"{m}_offset"], row[f"{m}_size"]) for m in SAMPLE_MEMBERS]
    try:
        members = read_sample(file, ranges)
    except OSError:
        if os.fstat(file.fileno()).st_size < sum(max(ranges)):  # truncated since the scan, not a storage error
            raise _changed(row) from None
        raise
    if sample_digest(*members) != row["digest"]:
        raise _changed(row)
    return members


def _changed(row: dict[str, Any]) -> ShardError:
    return ShardError(
        f"{row['raw_tar']}, key {row['key'].decode('utf-8', 'backslashreplace')}: the bytes are not those that "
        "were scanned; the shard changed in between: restore it, or convert into a new folder with verify=full"
    )
