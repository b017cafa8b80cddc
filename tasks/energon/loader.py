"""Check of the dataset with Energon's loader: it loads every sample once, complete and with the right conversation."""

import importlib.metadata
import importlib.util
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tasks.contracts.errors import DatasetError
from tasks.contracts.settings import CheckSettings
from tasks.energon import meta
from tasks.energon.child import run_child
from tasks.energon.index import MAX_WORKERS, check_index
from tasks.energon.manifest import PREPARE, Manifest, Split, read_manifest
from tasks.energon.tars import check_tars
from tasks.io.receipts import Receipt, note_timing, read_receipt

STAGE_VERSION = 1
MAX_NAMED_FAULTS = 5
SAMPLES_PER_PROCESS = 500
"""Samples that one process loads in the time that another process needs to open the dataset."""

OnProgress = Callable[[int], None]
"""Callback that gets the number of samples loaded so far, from time to time."""


class LoaderSummary(BaseModel):
    """Result of one pass over a split. ``sample_class``: the class that decoded it; None if the split is empty.

    ``unchanged``: the same data was loaded before, with the same prompt and Energon version.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    split: Split
    samples: int
    sample_class: str | None
    unchanged: bool


def check_loader(
    dataset_dir: Path, split: Split, check: CheckSettings, on_progress: OnProgress = lambda samples: None
) -> LoaderSummary:
    """Load every sample of a split exactly once, unless a valid receipt shows that this was done.

    An empty split passes. ``check.verify="full"`` ignores the receipt.
    Raises DatasetError with key and shard of samples that are missing, loaded twice, not decodable, or without
    image, prompt or caption; GateError if the dataset was not accepted.
    """
    manifest = read_manifest(dataset_dir)
    check_tars(dataset_dir, manifest)
    check_index(dataset_dir, manifest)
    if not manifest.samples_of(split):
        return LoaderSummary(split=split, samples=0, sample_class=None, unchanged=True)
    work = _expected_receipt(manifest, split)
    receipt = read_receipt(_receipt_path(dataset_dir, split))
    unchanged = receipt is not None and receipt.is_for(work) and check.verify == "changed"
    if receipt is None or not unchanged:
        receipt = _load_split(dataset_dir, manifest, split, check, work, on_progress)
    return LoaderSummary(split=split, unchanged=unchanged, **receipt.counts)


def compare_keys(answer: dict[str, Any], shards: dict[str, str]) -> list[str]:
    """Compare the loaded keys with the expected ones; return a sentence for each bad sample.

    ``answer`` is the result of the loading process: the loaded ``keys``, the ``faults``, and whether it gave up
    before the end (``stopped``). ``shards`` maps every expected key to its shard.
    """
    seen = Counter(answer["keys"])
    causes = {fault["key"]: fault["cause"] for fault in answer["faults"]}
    causes |= {key: f"loaded {times} times" for key, times in seen.items() if times > 1}
    causes |= dict.fromkeys(sorted(seen.keys() - shards.keys()), "not in the index")
    if not answer["stopped"]:
        causes |= dict.fromkeys(sorted(shards.keys() - seen.keys() - causes.keys()), "never loaded")
    return [f"{key} in {shards.get(key, 'no shard of the split')}: {cause}" for key, cause in causes.items()]


def shards_of(manifest: Manifest, split: Split) -> dict[str, str]:
    """Return the SHA-256 of every output shard of a split, by name."""
    return {shard.filename: shard.sha256 for shard in manifest.output_shards if shard.split == split}


def _expected_receipt(manifest: Manifest, split: Split) -> Receipt:
    inputs = {
        "shards": shards_of(manifest, split),
        "prompt": manifest.adaptation.prompt,
        "energon": importlib.metadata.version("megatron-energon"),
        "bridge_installed": importlib.util.find_spec("megatron.bridge") is not None,
    }
    return Receipt(stage=f"load-{split}", stage_version=STAGE_VERSION, inputs=inputs)


def _load_split(
    dataset_dir: Path, manifest: Manifest, split: Split, check: CheckSettings, work: Receipt, on_progress: OnProgress
) -> Receipt:
    """Load the split. Removes the old receipt first: a failed pass must not leave a valid one."""
    started = time.monotonic()
    _receipt_path(dataset_dir, split).unlink(missing_ok=True)
    log = dataset_dir / PREPARE / f"load-{split}.log"
    answer = _run_loader(_request(dataset_dir, manifest, split, check), log, on_progress)
    shards = meta.sample_shards(dataset_dir, manifest, split)
    if faults := compare_keys(answer, shards):
        given_up = "; the loader gave up before the end" if answer["stopped"] else ""
        raise DatasetError(
            f"{dataset_dir}: {len(faults)} bad samples in {split} (of {len(shards)}){given_up}: "
            f"{'; '.join(faults[:MAX_NAMED_FAULTS])}. Details in {log}"
        )
    counts = {"samples": len(shards), "sample_class": answer["sample_class"]}
    done = work.model_copy(update={"counts": counts})
    done.write(_receipt_path(dataset_dir, split))
    note_timing(dataset_dir / PREPARE, work.stage, time.monotonic() - started, counts)
    return done


def _run_loader(request: dict[str, Any], log: Path, on_progress: OnProgress) -> dict[str, Any]:
    progress = Path(request["progress"])
    progress.write_bytes(b"")
    try:
        answer = run_child("tasks.energon.load_child", request, log, lambda: on_progress(progress.stat().st_size))
        on_progress(progress.stat().st_size)
        return answer
    finally:
        progress.unlink(missing_ok=True)


def _request(dataset_dir: Path, manifest: Manifest, split: Split, check: CheckSettings) -> dict[str, Any]:
    return {
        "dataset_dir": str(dataset_dir.absolute()),
        "split": split,
        "batch_size": check.batch_size,
        "workers": _workers(check, manifest.count_of(split)),
        "progress": str((dataset_dir / PREPARE / f"load-{split}.progress").absolute()),
        "prompt": manifest.adaptation.prompt,
    }


def _workers(check: CheckSettings, samples: int) -> int:
    cpus = check.loaders or min(len(os.sched_getaffinity(0)), MAX_WORKERS)
    return max(1, min(cpus, samples // SAMPLES_PER_PROCESS))


def _receipt_path(dataset_dir: Path, split: Split) -> Path:
    return dataset_dir / PREPARE / f"load-{split}-receipt.json"
