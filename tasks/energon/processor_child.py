"""Child process: sends batches of every split through Energon's loader and a model's own processor."""

import itertools
import json
from pathlib import Path
from typing import Any

from tasks.energon.child import answer_parent
from tasks.energon.conversation import BadSampleError
from tasks.energon.load_child import Encoder, Faults, epoch
from tasks.energon.qwen_vl import Batch, PictureError, QwenProcessor, Row, collate, encode, load_processor
from tasks.energon.stand_in import sample_class


class WholeEncoder(Encoder):
    """Task encoder that checks every sample as ``Encoder`` does, and returns the whole sample."""

    def encode_sample(self, sample: Any) -> Any:
        """Return the sample unchanged. Raises BadSampleError as ``Encoder`` does."""
        super().encode_sample(sample)
        return sample


def process(request: dict[str, Any]) -> dict[str, Any]:
    """Return shapes and selected tokens of the first ``batches`` of each of ``splits``, ``batch_size`` samples each.

    ``processor`` is a folder. If it cannot be used, the result holds only ``refused``, the reason.
    ``refused_pictures`` lists the samples whose images training will skip.
    """
    try:
        processor = load_processor(Path(request["processor"]))
    except (OSError, ValueError, ImportError) as error:
        return {"refused": " ".join(str(error).split())}
    sample_class()
    faults, refused = Faults(), Faults()
    shapes = []
    for split in request["splits"]:
        loader = epoch({**request, "split": split}, WholeEncoder(request["prompt"]), faults)
        for samples in itertools.islice(loader, request["batches"]):
            if rows := _rows(processor, samples, faults, refused):
                shapes.append({"split": split, **_shapes(collate(processor, rows))})
    return {"batches": shapes, "faults": faults.found, "refused_pictures": refused.found}


def _rows(processor: QwenProcessor, samples: list[Any], faults: Faults, refused: Faults) -> list[Row]:
    rows = []
    for sample in samples:
        try:
            rows.append(encode(processor, sample.imgs, _turns(sample.conversation)))
        except PictureError as error:
            refused.record(error, sample, None)
        except BadSampleError as error:
            faults.record(error, sample, None)
    return rows


def _turns(conversation: Any) -> list[dict[str, Any]]:
    document = json.loads(conversation) if isinstance(conversation, str | bytes) else conversation
    return list(document["conversation"])


def _shapes(batch: Batch) -> dict[str, Any]:
    return {
        "input_ids": list(batch.input_ids.shape),
        "selected": batch.loss_mask.sum(dim=1).int().tolist(),
        "pixel_values": list(batch.pixels.shape),
        "image_grid_thw": batch.grid.tolist(),
    }


if __name__ == "__main__":
    answer_parent(process)
