"""A Qwen VL processor built for tests: its real image processor, and a tokenizer trained on a few captions."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

SPECIAL = ("endoftext", "im_start", "im_end", "vision_start", "vision_end", "image_pad", "video_pad")
CAPTIONS = [f"picture {number} – größer" for number in range(100)]

_CONTENT = (
    "{% for part in turn.content %}{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}"
)
TEMPLATE = "{% for turn in messages %}<|im_start|>{{ turn.role }}\n" + _CONTENT + "<|im_end|>\n{% endfor %}"
"""Qwen3-VL's, as far as our conversations use it."""
THINKING = TEMPLATE.replace(_CONTENT, "{% if turn.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}" + _CONTENT)
"""Qwen3.6's: the assistant's last turn begins with its thoughts, which are empty for a caption."""
WITHOUT_MARKERS = "{% for turn in messages %}{{ turn.role }}: " + _CONTENT + "<|im_end|>\n{% endfor %}"
ANSWER_GENERATED = TEMPLATE.replace(
    _CONTENT,
    "{% if turn.role == 'assistant' %}{% generation %}"
    + _CONTENT
    + "{% endgeneration %}{% else %}"
    + _CONTENT
    + "{% endif %}",
)
ALL_GENERATED = "{% generation %}" + TEMPLATE + "{% endgeneration %}"
PROMPT_GENERATED = TEMPLATE.replace(_CONTENT, "{% generation %}" + _CONTENT + "{% endgeneration %}")


def make_processor(folder: Path, template: str = TEMPLATE) -> Path:
    """Write a processor with patches of 16 pixels, as in Qwen3, into ``folder``."""
    text = Tokenizer(models.BPE())
    text.normalizer = normalizers.NFC()
    text.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    text.decoder = decoders.ByteLevel()
    special = [f"<|{name}|>" for name in SPECIAL]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    text.train_from_iterator(
        CAPTIONS, trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=text, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(patch_size=16).save_pretrained(folder)
    return folder
