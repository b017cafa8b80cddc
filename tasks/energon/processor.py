"""Check of the dataset with the model's own processor: batches become tensors as in training.

This module downloads and hashes the files of the processor; a child process loads them.
"""

import importlib.metadata
import importlib.util
import time
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, OfflineModeIsEnabled
from pydantic import BaseModel, ConfigDict

from tasks.contracts.errors import DatasetError, SettingsError
from tasks.contracts.settings import CheckSettings
from tasks.energon import meta
from tasks.energon.child import run_child
from tasks.energon.loader import MAX_NAMED_FAULTS, shards_of
from tasks.energon.manifest import PREPARE, SPLITS, Manifest, Split, read_manifest
from tasks.io.files import sha256_of
from tasks.io.receipts import Receipt, note_timing, read_receipt

STAGE_VERSION = 2
RECEIPT = "process-receipt.json"
PARTS = ("*.json", "*.jinja", "*.txt")
"""Patterns of the files that make up a model's processor; they match no weights."""


class ProcessedBatch(BaseModel):
    """Shapes of a batch: tokens (samples, length), patches (count, values), the grid (t, h, w) of every image.

    ``selected``: number of tokens of each sample that count for the loss.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    split: Split
    input_ids: tuple[int, int]
    selected: tuple[int, ...]
    pixel_values: tuple[int, int]
    image_grid_thw: tuple[tuple[int, int, int], ...]


class ProcessorSummary(BaseModel):
    """The batches that went through the processor. ``unchanged``: a valid receipt already covered them.

    ``refused``: samples that training will skip because the processor rejects their images.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    batches: tuple[ProcessedBatch, ...]
    refused: tuple[str, ...] = ()
    unchanged: bool


def check_processor(dataset_dir: Path, check: CheckSettings) -> ProcessorSummary | None:
    """Send the first batches of both splits through ``check.processor``; return None if that is null.

    A valid receipt of the same work is reused, unless ``check.verify`` is "full". Raises SettingsError if the
    processor cannot be fetched or used; DatasetError with the samples whose loss mask selects nothing, everything or
    anything other than the caption; GateError if the dataset was not accepted.
    """
    if check.processor is None:
        return None
    manifest = read_manifest(dataset_dir)
    folder = processor_folder(check.processor, check.processor_revision)
    work = _work(manifest, check, folder)
    receipt = read_receipt(dataset_dir / PREPARE / RECEIPT)
    unchanged = receipt is not None and receipt.is_for(work) and check.verify == "changed"
    if receipt is None or not unchanged:
        receipt = _process(dataset_dir, manifest, check, folder, work)
    return ProcessorSummary(unchanged=unchanged, **receipt.counts)


def table_rows(summary: ProcessorSummary) -> list[dict[str, str]]:
    """Return the batches as rows of a table."""
    return [
        {
            "split": batch.split,
            "token ids": str(list(batch.input_ids)),
            "tokens in the loss": ", ".join(map(str, batch.selected)),
            "patches": str(list(batch.pixel_values)),
            "grids (t, h, w)": ", ".join(str(list(grid)) for grid in batch.image_grid_thw),
        }
        for batch in summary.batches
    ]


def processor_folder(processor: str, revision: str | None) -> Path:
    """Return the folder of a processor: ``processor`` itself if absolute, else a download from the hub or its cache.

    Raises SettingsError if there is no processor, or the package transformers is missing.
    """
    if importlib.util.find_spec("transformers") is None:
        raise SettingsError(
            "check.processor needs the package transformers: install the extra `processor` of this project "
            "(pip install 'datacomp-energon[processor]'), or set check.processor to null"
        )
    folder = Path(processor) if processor.startswith("/") else _fetched(processor, revision)
    if not _parts(folder):
        raise SettingsError(f"check.processor: {folder} holds no processor: name the folder of a model, or a model")
    return folder


def _fetched(model: str, revision: str | None) -> Path:
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=list(PARTS)))
    except (HfHubHTTPError, HFValidationError, HTTPError, OfflineModeIsEnabled, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise SettingsError(
            f"check.processor: {model} cannot be fetched from the hub, and is not in its cache here ({reason}): fetch "
            "it where the hub can be reached (HF_HOME says where it is kept), or give the absolute path of its folder"
        ) from None


def _parts(folder: Path) -> list[Path]:
    return sorted(path for pattern in PARTS for path in folder.glob(pattern) if path.is_file())


def _work(manifest: Manifest, check: CheckSettings, folder: Path) -> Receipt:
    inputs = {
        "shards": {split: shards_of(manifest, split) for split in SPLITS},
        "prompt": manifest.adaptation.prompt,
        "processor": {path.name: sha256_of(path) for path in _parts(folder)},
        "energon": importlib.metadata.version("megatron-energon"),
        "transformers": importlib.metadata.version("transformers"),
    }
    settings = check.model_dump(mode="json", include={"processor_batches", "processor_batch_size"})
    return Receipt(stage="process", stage_version=STAGE_VERSION, inputs=inputs, settings=settings)


def _process(dataset_dir: Path, manifest: Manifest, check: CheckSettings, folder: Path, work: Receipt) -> Receipt:
    """Process the batches. Removes the old receipt first: a failed check must not leave a valid one."""
    started = time.monotonic()
    receipt, log = dataset_dir / PREPARE / RECEIPT, dataset_dir / PREPARE / "process.log"
    receipt.unlink(missing_ok=True)
    answer = run_child("tasks.energon.processor_child", _request(dataset_dir, manifest, check, folder), log)
    if refused := answer.get("refused"):
        raise SettingsError(f"check.processor: {folder} cannot be used: {refused}")
    if faults := answer["faults"]:
        told = "; ".join(_told(dataset_dir, manifest, faults[:MAX_NAMED_FAULTS]))
        raise DatasetError(f"{dataset_dir}: {len(faults)} samples are not fit for the processor: {told}. See {log}")
    refused = _told(dataset_dir, manifest, answer["refused_pictures"])
    done = work.model_copy(update={"counts": {"batches": answer["batches"], "refused": refused}})
    done.write(receipt)
    note_timing(dataset_dir / PREPARE, work.stage, time.monotonic() - started, {"batches": len(answer["batches"])})
    return done


def _told(dataset_dir: Path, manifest: Manifest, faults: list[dict[str, str]]) -> list[str]:
    shards = {key: name for split in SPLITS for key, name in meta.sample_shards(dataset_dir, manifest, split).items()}
    return [f"{fault['key']} in {shards.get(fault['key'], 'no shard')}: {fault['cause']}" for fault in faults]


def _request(dataset_dir: Path, manifest: Manifest, check: CheckSettings, folder: Path) -> dict[str, Any]:
    return {
        "dataset_dir": str(dataset_dir.absolute()),
        "splits": [split for split in SPLITS if manifest.samples_of(split)],
        "batch_size": check.processor_batch_size,
        "workers": 1,
        "batches": check.processor_batches,
        "prompt": manifest.adaptation.prompt,
        "processor": str(folder),
    }
