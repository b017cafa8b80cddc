"""Read the dataset back through Energon's own loader: every sample once, whole, and saying what it must."""

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
NAMED_FAULTS = 5
SAMPLES_PER_PROCESS = 500
"""Fewer are loaded before another process has opened the dataset."""

Told = Callable[[int], None]
"""Called now and then with the number of samples loaded so far."""


class LoaderSummary(BaseModel):
    """One pass over a split. ``sample_class`` is the class that read it; None if the split is empty.

    ``unchanged``: this very data was loaded before, by the same class and Energon.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    split: Split
    samples: int
    sample_class: str | None
    unchanged: bool


def check_loader(
    dataset_dir: Path, split: Split, check: CheckSettings, told: Told = lambda samples: None
) -> LoaderSummary:
    """Load every sample of a split exactly once; nothing to do if that was done and nothing changed since.

    A split without samples passes: there is nothing to load. ``check.verify="full"`` loads in any case.
    Raises DatasetError naming key and shard of what is missing, loaded twice, not decodable, or without
    image, prompt or caption; GateError if the dataset was not accepted.
    """
    manifest = read_manifest(dataset_dir)
    check_tars(dataset_dir, manifest)
    check_index(dataset_dir, manifest)
    if not manifest.samples_of(split):
        return LoaderSummary(split=split, samples=0, sample_class=None, unchanged=True)
    work = _work(manifest, split)
    receipt = read_receipt(_receipt(dataset_dir, split))
    unchanged = receipt is not None and receipt.is_for(work) and check.verify == "changed"
    if receipt is None or not unchanged:
        receipt = _load(dataset_dir, manifest, split, check, work, told)
    return LoaderSummary(split=split, unchanged=unchanged, **receipt.counts)


def compare_keys(answer: dict[str, Any], shards: dict[str, str]) -> list[str]:
    """What is wrong with a pass, a sentence a sample.

    ``answer`` is the loading process's: the ``keys`` it got, the ``faults`` it met, and whether it gave up
    before the end (``stopped``). ``shards`` is the shard of every key that should come.
    """
    seen = Counter(answer["keys"])
    causes = {fault["key"]: fault["cause"] for fault in answer["faults"]}
    causes |= {key: f"loaded {times} times" for key, times in seen.items() if times > 1}
    causes |= dict.fromkeys(sorted(seen.keys() - shards.keys()), "not in the index")
    if not answer["stopped"]:
        causes |= dict.fromkeys(sorted(shards.keys() - seen.keys() - causes.keys()), "never loaded")
    return [f"{key} in {shards.get(key, 'no shard of the split')}: {cause}" for key, cause in causes.items()]


def shards_of(manifest: Manifest, split: Split) -> dict[str, str]:
    """SHA-256 of every shard of a split, by name."""
    return {shard.filename: shard.sha256 for shard in manifest.output_shards if shard.split == split}


def _work(manifest: Manifest, split: Split) -> Receipt:
    inputs = {
        "shards": shards_of(manifest, split),
        "prompt": manifest.adaptation.prompt,
        "energon": importlib.metadata.version("megatron-energon"),
        "bridge_installed": importlib.util.find_spec("megatron.bridge") is not None,
    }
    return Receipt(stage=f"load-{split}", stage_version=STAGE_VERSION, inputs=inputs)


def _load(
    dataset_dir: Path, manifest: Manifest, split: Split, check: CheckSettings, work: Receipt, told: Told
) -> Receipt:
    """The pass itself. Its receipt is removed first: a pass that fails must not leave the one before it."""
    started = time.monotonic()
    _receipt(dataset_dir, split).unlink(missing_ok=True)
    log = dataset_dir / PREPARE / f"load-{split}.log"
    answer = _answer(_request(dataset_dir, manifest, split, check), log, told)
    shards = meta.sample_shards(dataset_dir, manifest, split)
    if faults := compare_keys(answer, shards):
        given_up = "; the loader gave up before the end" if answer["stopped"] else ""
        raise DatasetError(
            f"{dataset_dir}: {len(faults)} bad samples in {split} (of {len(shards)}){given_up}: "
            f"{'; '.join(faults[:NAMED_FAULTS])}. Details in {log}"
        )
    counts = {"samples": len(shards), "sample_class": answer["sample_class"]}
    done = work.model_copy(update={"counts": counts})
    done.write(_receipt(dataset_dir, split))
    note_timing(dataset_dir / PREPARE, work.stage, time.monotonic() - started, counts)
    return done


def _answer(request: dict[str, Any], log: Path, told: Told) -> dict[str, Any]:
    progress = Path(request["progress"])
    progress.write_bytes(b"")
    try:
        answer = run_child("tasks.energon.load_child", request, log, lambda: told(progress.stat().st_size))
        told(progress.stat().st_size)
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


def _receipt(dataset_dir: Path, split: Split) -> Path:
    return dataset_dir / PREPARE / f"load-{split}-receipt.json"
