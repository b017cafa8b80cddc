"""Child process: one exact pass over a split through Energon's loader. Imports torch.

Several processes share a split like the ranks of a data-parallel training; Energon assigns each sample to one of them.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from megatron.energon import DefaultTaskEncoder, WorkerConfig, get_loader, get_val_dataset
from megatron.energon.flavors.webdataset.sample_loader import RawSampleData
from PIL import ImageFile

from tasks.energon.child import answer_parent
from tasks.energon.conversation import BadSampleError, conversation_fault
from tasks.energon.stand_in import sample_class

logger = logging.getLogger(__name__)


class Faults:
    """Record of the errors, sample by sample; Energon's own handler only prints them and continues."""

    def __init__(self) -> None:
        self.found: list[dict[str, str]] = []

    def record(self, error: Exception, sample: Any, sources: list[Any] | None) -> None:
        """Record the sample's key and the cause; Energon calls this as its error handler."""
        self.found.append({"key": _key(sample), "cause": _cause(error)})


def _cause(error: BaseException) -> str:
    """Return the original error: webdataset's decoder wraps it in an error without a message."""
    while error.__cause__:
        error = error.__cause__
    return str(error) if isinstance(error, BadSampleError) else f"{type(error).__name__}: {error}"


def _key(sample: Any) -> str:
    """Return the key of a sample; for one that is not decoded yet, Energon passes the raw members."""
    if isinstance(sample, RawSampleData):
        (sample,) = sample.data
    return str(sample["__key__"] if isinstance(sample, dict) else sample.__key__)


class Encoder(DefaultTaskEncoder):
    """Task encoder that checks every sample where training would encode it; a batch is the list of its keys."""

    def __init__(self, prompt: str) -> None:
        super().__init__()
        self.prompt = prompt

    def encode_sample(self, sample: Any) -> str:
        """Return the sample's key. Raises BadSampleError if image or conversation cannot be used for training."""
        if fault := image_fault(sample.imgs) or conversation_fault(sample.conversation, self.prompt):
            raise BadSampleError(fault)
        return str(sample.__key__)

    def batch(self, samples: list[str]) -> list[str]:
        """Return the keys unchanged."""
        return samples


def image_fault(image: object) -> str | None:
    """Return what is wrong with a decoded image, or None if it is an RGB tensor."""
    if not isinstance(image, torch.Tensor):
        return f"the picture came as {type(image).__name__}, not as a tensor"
    if image.dim() != 3 or image.shape[0] != 3 or image.numel() == 0:
        return f"the picture has shape {tuple(image.shape)} instead of (3, height, width)"
    return None


def load(request: dict[str, Any]) -> dict[str, Any]:
    """Load each sample of ``split`` in ``dataset_dir`` once, ``batch_size`` at a time, with ``workers`` processes.

    ``prompt`` is the expected prompt; the file ``progress`` grows by one byte per sample.
    """
    # If this switch is on, Pillow pads a truncated image instead of rejecting it.
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    answer: dict[str, Any] = {"sample_class": sample_class(), "keys": [], "faults": [], "stopped": False}
    # Forked processes share the memory of the imported torch; Energon also forks its workers.
    with ProcessPoolExecutor(request["workers"], get_context("fork")) as processes:
        for part in processes.map(partial(_load_rank, request), range(request["workers"])):
            answer["keys"] += part["keys"]
            answer["faults"] += part["faults"]
            answer["stopped"] |= part["stopped"]
    return answer


def _load_rank(request: dict[str, Any], rank: int) -> dict[str, Any]:
    """Load one rank's share of the split."""
    torch.set_num_threads(1)
    answer: dict[str, Any] = {"keys": [], "stopped": False}
    faults = Faults()
    try:
        with Path(request["progress"]).open("ab") as progress:
            for batch in epoch(request, Encoder(request["prompt"]), faults, rank):
                answer["keys"] += batch
                progress.write(b"." * len(batch))
                progress.flush()
    except Exception as error:
        # Energon stops after 100 consecutive errors; those and the keys so far are more useful than its exception.
        if not faults.found:
            raise
        logger.warning("stopped before the end: %s", error)
        answer["stopped"] = True
    return {**answer, "faults": faults.found}


def epoch(request: dict[str, Any], encoder: DefaultTaskEncoder, faults: Faults, rank: int = 0) -> Iterator[Any]:
    """Return an iterator over one epoch: a validation loader does not repeat, shuffle or drop the last batch."""
    dataset = get_val_dataset(
        Path(request["dataset_dir"]),
        split_part=request["split"],
        batch_size=request["batch_size"],
        task_encoder=encoder,
        worker_config=WorkerConfig(
            rank=rank, world_size=request["workers"], num_workers=0, global_error_handler=faults.record
        ),
    )
    return iter(get_loader(dataset, watchdog_timeout_seconds=None))


if __name__ == "__main__":
    answer_parent(load)
