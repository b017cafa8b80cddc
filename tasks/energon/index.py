"""Index a prepared dataset with Energon, and believe the index only where it equals the manifest."""

import errno
import importlib.metadata
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tasks.contracts.errors import DatasetError
from tasks.energon import meta
from tasks.energon.child import run_child
from tasks.energon.manifest import META, PREPARE, SPLITS, Manifest, read_manifest
from tasks.energon.tars import check_tars, diagnose
from tasks.io.files import atomic_file, write_bytes
from tasks.io.fingerprints import Fingerprint, Fingerprints, Verify
from tasks.io.receipts import Receipt, note_timing, read_receipt
from tasks.io.storage import full_tmpdir, temporary_folder

STAGE_VERSION = 1
RECEIPT = "index-receipt.json"
MAX_WORKERS = 8
TMPDIR_USE = "the index is built in it, with 300 bytes a sample"
_FULL = ("database or disk is full", os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
"""What SQLite and Energon say, who write in the temporary folder alone."""

DATASET_YAML = b"""\
__module__: megatron.bridge.data.energon.task_encoder_utils
__class__: ChatMLWebdataset
field_map:
  imgs: image.jpg
  conversation: conversation.json
subflavors: {}
"""


class IndexSummary(BaseModel):
    """What was indexed. ``notes`` are sentences for people; ``unchanged``: the index was there already."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shards: int
    train: int
    val: int
    unchanged: bool
    notes: tuple[str, ...] = ()


def index_dataset(
    dataset_dir: Path, verify: Verify = "changed", told: Callable[[int], None] = lambda _: None
) -> IndexSummary:
    """Index the shards that the manifest names; nothing to do if the index is there and right.

    ``told`` hears about every second how many tars have their index.
    ``verify="full"`` hashes every tar again. Raises GateError if the dataset was not accepted, DatasetError
    if tars or index differ from the manifest.
    """
    started = time.monotonic()
    manifest = read_manifest(dataset_dir)
    check_tars(dataset_dir, manifest, verify)
    work = _work(manifest)
    unchanged = _is_indexed(dataset_dir, manifest, work, verify)
    if not unchanged:
        _index(dataset_dir, manifest, told)
        check_index(dataset_dir, manifest)
        _leave_receipt(dataset_dir, manifest, work)
        note_timing(dataset_dir / PREPARE, "index", time.monotonic() - started, work.counts)
    return summary(manifest, unchanged)


def check_index(dataset_dir: Path, manifest: Manifest) -> None:
    """Compare the index with the manifest. Raises DatasetError naming shard and numbers, or what is missing."""
    if missing := meta.missing_files(dataset_dir, manifest):
        raise DatasetError(f"{dataset_dir} is not indexed: {', '.join(missing[:5])} missing; index it first")
    if (dataset_dir / META / meta.DATASET_FILE).read_bytes() != DATASET_YAML:
        raise DatasetError(f"{dataset_dir / META / meta.DATASET_FILE} is not the one this project writes; index again")
    meta.check_counts(dataset_dir, manifest)
    meta.check_members(dataset_dir, manifest)
    meta.check_offsets(dataset_dir, manifest)


def summary(manifest: Manifest, unchanged: bool) -> IndexSummary:
    """Sum up an index that equals the manifest."""
    return IndexSummary(
        shards=len(manifest.output_shards),
        train=manifest.counts.train,
        val=manifest.counts.val,
        unchanged=unchanged,
        notes=tuple(
            f"The {split} split has no samples; Energon refuses to open an empty split. Train without it, "
            "or convert again with another validation_fraction."
            for split in SPLITS
            if not manifest.samples_of(split)
        ),
    )


def _work(manifest: Manifest) -> Receipt:
    shards = sorted((shard.model_dump() for shard in manifest.output_shards), key=lambda shard: shard["filename"])
    return Receipt(
        stage="index",
        stage_version=STAGE_VERSION,
        inputs={"output_shards": shards, "energon": importlib.metadata.version("megatron-energon")},
        counts={"shards": len(shards), "train": manifest.counts.train, "val": manifest.counts.val},
    )


def _is_indexed(dataset_dir: Path, manifest: Manifest, work: Receipt, verify: Verify) -> bool:
    receipt = read_receipt(dataset_dir / PREPARE / RECEIPT)
    if receipt is None or not receipt.is_for(work) or meta.missing_files(dataset_dir, manifest):
        return False
    if not receipt.outputs_intact(dataset_dir, Fingerprints(dataset_dir / PREPARE / "fingerprints", verify)):
        return False
    try:
        check_index(dataset_dir, manifest)
    except DatasetError:
        return False
    return True


def _index(dataset_dir: Path, manifest: Manifest, told: Callable[[int], None]) -> None:
    """Build the index on a local disk, then copy it in: SQLite is slow on a shared file system, and not safe there.

    Energon writes its files beside the tars, so it is given a temporary folder of links to them.
    """
    _remove_debris(dataset_dir)
    shards = list(manifest.samples)
    with temporary_folder("energon-index-", TMPDIR_USE) as folder:
        for shard in shards:
            (folder / shard).symlink_to((dataset_dir / shard).absolute())
        _build(folder, dataset_dir, shards, told)
        for name in (*(f"{META}/{name}" for name in meta.BUILT_FILES), *map(meta.index_name, shards)):
            with (folder / name).open("rb") as built, atomic_file(dataset_dir / name) as file:
                shutil.copyfileobj(built, file)
    write_bytes(dataset_dir / META / meta.DATASET_FILE, DATASET_YAML)


def _build(folder: Path, dataset_dir: Path, shards: list[str], told: Callable[[int], None]) -> None:
    workers = min(len(shards), len(os.sched_getaffinity(0)), MAX_WORKERS)
    request = {"dataset_dir": str(folder), "shards": shards, "workers": workers}
    try:
        log = dataset_dir / PREPARE / "energon.log"
        run_child("tasks.energon.prepare_child", request, log, lambda: told(len(list(folder.glob("*.tar.idx")))))
    except DatasetError as error:
        if any(words in str(error) for words in _FULL):
            raise full_tmpdir(TMPDIR_USE) from None
        if fault := diagnose(dataset_dir, shards):
            raise DatasetError(f"{dataset_dir} cannot be indexed: {fault}. Convert again") from None
        raise


def _remove_debris(dataset_dir: Path) -> None:
    """Remove what an earlier run left, the receipt first: a kill in between must not leave a valid one."""
    (dataset_dir / PREPARE / RECEIPT).unlink(missing_ok=True)
    if (dataset_dir / META).exists():
        shutil.rmtree(dataset_dir / META)
    for split in SPLITS:
        for index in dataset_dir.glob(f"{split}-shard-*.tar.idx*"):
            index.unlink()


def _leave_receipt(dataset_dir: Path, manifest: Manifest, work: Receipt) -> None:
    """Note what the index is. ``index.uuid`` is random and SQLite's pages are not byte-stable: both must be there,
    the database with the right content, but their bytes are no part of the receipt."""
    names = [f"{META}/{name}" for name in (meta.DATASET_FILE, meta.INFO, meta.SPLIT_FILE)]
    names += [meta.index_name(shard) for shard in manifest.samples]
    notes = Fingerprints(dataset_dir / PREPARE / "fingerprints")
    outputs = [Fingerprint(**{**notes.of(dataset_dir / name).model_dump(), "name": name}) for name in names]
    work.model_copy(update={"outputs": outputs}).write(dataset_dir / PREPARE / RECEIPT)
