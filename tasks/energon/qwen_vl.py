"""Tensors of a Qwen VL model, made from a sample as in Megatron-Bridge. Child processes only: imports transformers.

The code follows Megatron-Bridge: src/megatron/bridge/models/qwen_vl/data/energon.py (QwenVLTaskEncoder) and
collate_fn.py beside it (qwen2_5_collate_fn), with data/conversation_processing.py (build_assistant_loss_mask) and
data/sequence_batching.py. Tokenizer and image processor are loaded separately: the combined processor also loads its
video part, which requires torchvision.
"""

import itertools
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.nn.functional import pad
from transformers import AutoTokenizer

# Not imported from the package itself: there, transformers 5.12 requires torchvision, which this class does not need.
from transformers.models.auto.image_processing_auto import AutoImageProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from tasks.energon.conversation import BadSampleError

IMAGE_TOKEN = "<|image_pad|>"
ASSISTANT_START, TURN_END = "<|im_start|>assistant\n", "<|im_end|>"
IGNORED_LABEL = -100

PIXELS = {"shortest_edge": 200_704, "longest_edge": 1_003_520}
"""Minimum and maximum pixels of an image: QwenVLTaskEncoder's ``min_pixels`` and ``max_pixels``."""
SEQUENCE_LENGTH, LENGTH_MULTIPLE = 4096, 128
"""Maximum sequence length in tokens, and its multiple: QwenVLTaskEncoder's defaults."""

# The collator first calls qwen_vl_utils.process_vision_info, which fits the sides to its own default patch size.
_FITTED_FACTOR, _FITTED_TOKENS = 28, (4, 16_384)
# The collator never trains on these tokens (Bridge's extract_skipped_token_ids). <|im_end|> is not among them: in the
# assistant's turn it counts for the loss, since the model must learn to stop.
_SKIPPED = re.compile(r"<\|(im_start|vision_start|vision_end|vision_pad|image_pad|video_pad)\|>")
_GENERATION_BLOCK = re.compile(r"\{%-?\s*generation\s*-?%\}")
_EMPTY_THOUGHTS = re.compile(r"<think>\s*</think>")


class PictureError(BadSampleError):
    """Raised for an image that the processor rejects; in training, the loader skips the sample."""


@dataclass(frozen=True)
class QwenProcessor:
    """The two parts of a Qwen VL processor, the image's token id, and the token ids that never count for the loss."""

    tokenizer: Any
    image_processor: Any
    image_id: int
    skipped: frozenset[int]


@dataclass(frozen=True)
class Row:
    """One sample: ``ids`` and ``mask`` (S), ``pixels`` (patches, values of a patch), ``grid`` (1, 3: t, h, w)."""

    ids: torch.Tensor
    mask: torch.Tensor
    pixels: torch.Tensor
    grid: torch.Tensor


@dataclass(frozen=True)
class Batch:
    """B samples of S tokens: ``input_ids``, ``labels``, ``loss_mask`` (B, S), all patches, ``grid`` (B, 3)."""

    input_ids: torch.Tensor
    labels: torch.Tensor
    loss_mask: torch.Tensor
    pixels: torch.Tensor
    grid: torch.Tensor


def load_processor(folder: Path) -> QwenProcessor:
    """Load the processor in ``folder``. Raises ValueError or OSError if it is not one of a Qwen VL model."""
    image_processor = AutoImageProcessor.from_pretrained(folder, trust_remote_code=False)
    if not type(image_processor).__name__.startswith("Qwen2VLImageProcessor"):
        raise ValueError(f"its image processor is a {type(image_processor).__name__}, not one of Qwen VL")
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if not tokenizer.chat_template:
        raise ValueError("its tokenizer has no chat template")
    added = {str(token): number for number, token in tokenizer.added_tokens_decoder.items()}
    if IMAGE_TOKEN not in added:
        raise ValueError(f"its tokenizer knows no {IMAGE_TOKEN}")
    skipped = frozenset(number for token, number in added.items() if _SKIPPED.fullmatch(token))
    return QwenProcessor(tokenizer, image_processor, added[IMAGE_TOKEN], skipped)


def encode(processor: QwenProcessor, image: torch.Tensor, turns: list[dict[str, Any]]) -> Row:
    """Return tokens, loss mask and patches of one sample.

    ``image``: float32 RGB of shape (3, height, width) in [0, 1]; ``turns``: the user's, then the assistant's. Raises
    BadSampleError if the mask selects anything other than the caption, PictureError if the processor rejects the
    image.
    """
    pixels, grid = _patches(processor, image)
    ids, selected = _tokens(processor, turns)
    mask = [chosen and number not in processor.skipped for number, chosen in zip(ids, selected, strict=True)]
    if fault := _mask_fault(processor, ids, mask, turns):
        raise BadSampleError(fault)
    tokens = int(grid.prod()) // processor.image_processor.merge_size**2
    repeats = torch.tensor([tokens if number == processor.image_id else 1 for number in ids])
    return Row(
        torch.tensor(ids).repeat_interleave(repeats), torch.tensor(mask).repeat_interleave(repeats), pixels, grid
    )


def collate(processor: QwenProcessor, rows: list[Row]) -> Batch:
    """Return the rows as Bridge's collator does: padded to one length, labels and loss mask shifted by one token."""
    longest = max(len(row.ids) for row in rows)
    target = min(SEQUENCE_LENGTH, -(-longest // LENGTH_MULTIPLE) * LENGTH_MULTIPLE)
    fill = processor.tokenizer.pad_token_id or 0
    # The tokenizer pads to the longest row with its own token; the collator pads the rest with 0.
    ids = torch.stack([pad(row.ids, (0, longest - len(row.ids)), value=fill) for row in rows])
    mask = torch.stack([pad(row.mask, (0, longest - len(row.mask))) for row in rows])
    labels = pad(ids[:, 1:], (0, 1), value=IGNORED_LABEL)
    shifted = pad(mask[:, 1:], (0, 1))
    labels = labels.masked_fill(~shifted, IGNORED_LABEL)
    return Batch(
        input_ids=_fitted(ids, target, 0),
        labels=_fitted(labels, target, IGNORED_LABEL),
        loss_mask=_fitted(shifted.float(), target, 0),
        pixels=torch.cat([row.pixels for row in rows]),
        grid=torch.cat([row.grid for row in rows]),
    )


def _fitted(values: torch.Tensor, length: int, fill: int) -> torch.Tensor:
    return pad(values, (0, length - values.shape[1]), value=fill)


def _patches(processor: QwenProcessor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    picture = Image.fromarray((image.permute(1, 2, 0) * 255).clip(0, 255).byte().numpy())
    least, most = (tokens * _FITTED_FACTOR**2 for tokens in _FITTED_TOKENS)
    try:
        height, width = smart_resize(picture.height, picture.width, _FITTED_FACTOR, least, most)
        picture = picture.resize((width, height))
        found = processor.image_processor(images=[picture], size=PIXELS, return_tensors="pt")
    except ValueError as error:
        raise PictureError(f"the picture of {picture.width} x {picture.height} is refused: {error}") from None
    return found["pixel_values"], found["image_grid_thw"]


def _tokens(processor: QwenProcessor, turns: list[dict[str, Any]]) -> tuple[list[int], list[bool]]:
    """Return token ids with one token for the image, and which of them are the assistant's.

    A template with generation blocks marks the assistant's content itself, and Bridge adds the end of the turn. With
    any other template the turn is found by its markers.
    """
    tokenizer = processor.tokenizer
    if _GENERATION_BLOCK.search(tokenizer.chat_template):
        told = tokenizer.apply_chat_template(turns, return_dict=True, return_assistant_tokens_mask=True)
        ids, mask = told["input_ids"], told["assistant_masks"]
        _, end, after = _assistant_span(tokenizer, ids, turns)
        return ids, [bool(value) or end <= place < after for place, value in enumerate(mask)]
    ids = _rendered(tokenizer, turns)
    start, _, after = _assistant_span(tokenizer, ids, turns)
    return ids, [start <= place < after for place in range(len(ids))]


def _assistant_span(tokenizer: Any, ids: list[int], turns: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Return where the assistant's content starts and ends, and where its terminator ends; zeros without a turn.

    The terminator includes the line break after it. As in Bridge, the last terminator counts, so that a caption that
    contains a terminator is trained on completely.
    """
    prompt = _rendered(tokenizer, turns[:1])
    common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(prompt, ids, strict=False)))
    marker = tokenizer.encode(ASSISTANT_START, add_special_tokens=False)
    starts = [place for place in range(common, len(ids)) if ids[place : place + len(marker)] == marker]
    ends = [place for place, number in enumerate(ids) if number == tokenizer.convert_tokens_to_ids(TURN_END)]
    if not starts or not ends or ends[-1] < starts[0]:
        return 0, 0, 0
    after = tokenizer.encode(f"{TURN_END}\n", add_special_tokens=False)
    whole = ids[ends[-1] : ends[-1] + len(after)] == after
    return starts[0] + len(marker), ends[-1], ends[-1] + (len(after) if whole else 1)


def _rendered(tokenizer: Any, turns: list[dict[str, Any]]) -> list[int]:
    return list(tokenizer(tokenizer.apply_chat_template(turns, tokenize=False))["input_ids"])


def _mask_fault(processor: QwenProcessor, ids: list[int], mask: list[bool], turns: list[dict[str, Any]]) -> str | None:
    """Return what is wrong with the tokens or the mask, or None if the mask selects the caption and its end."""
    if (pictures := ids.count(processor.image_id)) != 1:
        return f"the chat template, or the caption, gives {pictures} image tokens for one picture"
    if not any(mask):
        return "the loss mask selects nothing: no assistant turn was found in what the chat template gives"
    if all(chosen or number in processor.skipped for number, chosen in zip(ids, mask, strict=True)):
        return "the loss mask selects everything: the prompt would be trained on too"
    chosen = [number for number, wanted in zip(ids, mask, strict=True) if wanted]
    text = _EMPTY_THOUGHTS.sub("", processor.tokenizer.decode(chosen), count=1).strip().removesuffix(TURN_END).strip()
    caption = unicodedata.normalize("NFC", turns[1]["content"][0]["text"]).strip()
    if unicodedata.normalize("NFC", text) != caption:
        return f"the loss mask selects {_short(text)}, the caption is {_short(caption)}"
    return None


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
