"""Index of a prepared dataset: built by Energon, and accepted only if it matches the manifest."""

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
_DISK_FULL = ("database or disk is full", os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
"""Messages of SQLite and Energon for a full disk; both write only to the temporary folder."""

DATASET_YAML = b"""\
__module__: megatron.bridge.data.energon.task_encoder_utils
__class__: ChatMLWebdataset
field_map:
  imgs: image.jpg
  conversation: conversation.json
subflavors: {}
"""


class IndexSummary(BaseModel):
    """Counts of an index. ``notes`` are sentences for people; ``unchanged``: the index already existed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shards: int
    train: int
    val: int
    unchanged: bool
    notes: tuple[str, ...] = ()


def index_dataset(
    dataset_dir: Path, verify: Verify = "changed", on_progress: Callable[[int], None] = lambda _: None
) -> IndexSummary:
    """Index the output shards of the manifest, unless a valid index exists.

    ``on_progress`` is called about once a second with the number of indexed tars.
    ``verify="full"`` hashes every tar again. Raises GateError if the dataset was not accepted, DatasetError
    if tars or index differ from the manifest.
    """
    started = time.monotonic()
    manifest = read_manifest(dataset_dir)
    check_tars(dataset_dir, manifest, verify)
    work = _expected_receipt(manifest)
    unchanged = _is_indexed(dataset_dir, manifest, work, verify)
    if not unchanged:
        _build_index(dataset_dir, manifest, on_progress)
        check_index(dataset_dir, manifest)
        _write_receipt(dataset_dir, manifest, work)
        note_timing(dataset_dir / PREPARE, "index", time.monotonic() - started, work.counts)
    return summarize(manifest, unchanged)


def check_index(dataset_dir: Path, manifest: Manifest) -> None:
    """Compare the index with the manifest. Raises DatasetError with shard and numbers, or with the missing files."""
    if missing := meta.missing_files(dataset_dir, manifest):
        raise DatasetError(f"{dataset_dir} is not indexed: {', '.join(missing[:5])} missing; index it first")
    if (dataset_dir / META / meta.DATASET_FILE).read_bytes() != DATASET_YAML:
        raise DatasetError(
            f"{dataset_dir / META / meta.DATASET_FILE} is not the one that this project writes; index again"
        )
    meta.check_counts(dataset_dir, manifest)
    meta.check_members(dataset_dir, manifest)
    meta.check_offsets(dataset_dir, manifest)


def summarize(manifest: Manifest, unchanged: bool) -> IndexSummary:
    """Return the summary of an index that matches the manifest."""
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


def _expected_receipt(manifest: Manifest) -> Receipt:
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


def _build_index(dataset_dir: Path, manifest: Manifest, on_progress: Callable[[int], None]) -> None:
    """Build the index on a local disk and copy it to the dataset: SQLite is slow and unsafe on a shared file system.

    Energon writes its files beside the tars, so it gets a temporary folder with links to them.
    """
    _remove_stale_index(dataset_dir)
    shards = list(manifest.samples)
    with temporary_folder("energon-index-", TMPDIR_USE) as folder:
        for shard in shards:
            (folder / shard).symlink_to((dataset_dir / shard).absolute())
        _run_energon(folder, dataset_dir, shards, on_progress)
        for name in (*(f"{META}/{name}" for name in meta.BUILT_FILES), *map(meta.index_name, shards)):
            with (folder / name).open("rb") as built, atomic_file(dataset_dir / name) as file:
                shutil.copyfileobj(built, file)
    write_bytes(dataset_dir / META / meta.DATASET_FILE, DATASET_YAML)


def _run_energon(folder: Path, dataset_dir: Path, shards: list[str], on_progress: Callable[[int], None]) -> None:
    workers = min(len(shards), len(os.sched_getaffinity(0)), MAX_WORKERS)
    request = {"dataset_dir": str(folder), "shards": shards, "workers": workers}
    try:
        log = dataset_dir / PREPARE / "energon.log"
        run_child("tasks.energon.prepare_child", request, log, lambda: on_progress(len(list(folder.glob("*.tar.idx")))))
    except DatasetError as error:
        if any(words in str(error) for words in _DISK_FULL):
            raise full_tmpdir(TMPDIR_USE) from None
        if fault := diagnose(dataset_dir, shards):
            raise DatasetError(f"{dataset_dir} cannot be indexed: {fault}. Convert again") from None
        raise


def _remove_stale_index(dataset_dir: Path) -> None:
    """Remove the files of an earlier index, the receipt first: a kill in between must not leave a valid receipt."""
    (dataset_dir / PREPARE / RECEIPT).unlink(missing_ok=True)
    if (dataset_dir / META).exists():
        shutil.rmtree(dataset_dir / META)
    for split in SPLITS:
        for index in dataset_dir.glob(f"{split}-shard-*.tar.idx*"):
            index.unlink()


def _write_receipt(dataset_dir: Path, manifest: Manifest, work: Receipt) -> None:
    """Write the index receipt.

    It does not contain fingerprints of ``index.uuid``, which is random, and of the database, whose pages are not
    byte-stable: ``check_index`` checks that they exist and compares the database with the manifest.
    """
    names = [f"{META}/{name}" for name in (meta.DATASET_FILE, meta.INFO, meta.SPLIT_FILE)]
    names += [meta.index_name(shard) for shard in manifest.samples]
    notes = Fingerprints(dataset_dir / PREPARE / "fingerprints")
    outputs = [Fingerprint(**{**notes.of(dataset_dir / name).model_dump(), "name": name}) for name in names]
    work.model_copy(update={"outputs": outputs}).write(dataset_dir / PREPARE / RECEIPT)
