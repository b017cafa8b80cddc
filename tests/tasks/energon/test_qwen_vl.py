"""Tokens, loss mask and patches of a Qwen VL model, with its real image processor and a tokenizer built for tests."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.energon.conversation import BadSampleError
from tasks.energon.qwen_vl import PictureError, QwenProcessor, collate, encode, load_processor
from tests.tasks.energon.dataset import conversation
from tests.tasks.energon.qwen import (
    ALL_GENERATED,
    ANSWER_GENERATED,
    PROMPT_GENERATED,
    TEMPLATE,
    THINKING,
    WITHOUT_MARKERS,
    make_processor,
)

PICTURE = torch.zeros(3, 384, 512)


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory) -> QwenProcessor:
    return load_processor(make_processor(tmp_path_factory.mktemp("processor")))


def turns(caption: str = "picture 5 – größer") -> list[dict[str, Any]]:
    """Return a conversation with that caption."""
    made = conversation(5)["conversation"]
    made[1]["content"][0]["text"] = caption
    return made


def with_template(processor: QwenProcessor, template: str, monkeypatch: pytest.MonkeyPatch) -> QwenProcessor:
    """Give the processor another chat template for one test."""
    monkeypatch.setattr(processor.tokenizer, "chat_template", template)
    return processor


@pytest.mark.parametrize(
    ("height", "width", "grid"), [(384, 512, [1, 26, 32]), (360, 480, [1, 26, 34]), (16, 24, [1, 24, 36])]
)
def test_patches_are_those_that_bridge_makes(processor, height, width, grid):
    # 832 and 884 patches of 1536 values: the tutorial's two batches.
    row = encode(processor, torch.rand(3, height, width), turns())
    assert row.grid.tolist() == [grid] and list(row.pixels.shape) == [grid[1] * grid[2], 1536]
    assert int((row.ids == processor.image_id).sum()) == grid[1] * grid[2] // 4


@pytest.mark.parametrize("template", [TEMPLATE, THINKING, ANSWER_GENERATED])
def test_caption_and_the_end_of_its_turn_count_for_the_loss(processor, template, monkeypatch):
    with_template(processor, template, monkeypatch)
    rows = [encode(processor, PICTURE, turns(caption)) for caption in ("picture 5 – größer", "picture 6" * 40)]
    batch = collate(processor, rows)
    assert list(batch.input_ids.shape) == [2, 384]
    for number, caption in enumerate(("picture 5 – größer", "picture 6" * 40)):
        labels = batch.labels[number][batch.loss_mask[number] > 0]
        thoughts = "<think>\n\n</think>\n\n" if template == THINKING else ""
        assert processor.tokenizer.decode(labels) == f"{thoughts}{caption}<|im_end|>\n"
        assert (batch.labels[number] == -100).sum() == 384 - len(labels)
        # The label of a position is the token that follows it.
        places = batch.loss_mask[number].nonzero().flatten()
        assert batch.input_ids[number][places + 1].tolist() == labels.tolist()


def test_rows_are_padded_by_the_tokenizer_and_then_by_the_collator(processor):
    rows = [encode(processor, PICTURE, turns(caption)) for caption in ("short", "picture 6" * 40)]
    batch = collate(processor, rows)
    short, long = (len(row.ids) for row in rows)
    padding = batch.input_ids[0][short:].tolist()
    assert padding == [processor.tokenizer.pad_token_id] * (long - short) + [0] * (384 - long)


def test_long_caption_is_cut_where_bridge_cuts_it(processor):
    batch = collate(processor, [encode(processor, PICTURE, turns("Ж" * 3000))])
    assert list(batch.input_ids.shape) == [1, 4096] and batch.loss_mask[0, -1] == 1


@pytest.mark.parametrize(
    ("template", "told"),
    [
        (WITHOUT_MARKERS, "selects nothing"),
        (ALL_GENERATED, "selects everything"),
        (PROMPT_GENERATED, "selects 'Describe this image.picture 5 – größer', the caption is 'picture 5 – größer'"),
    ],
)
def test_mask_of_anything_but_the_caption_is_refused(processor, template, told, monkeypatch):
    with_template(processor, template, monkeypatch)
    with pytest.raises(BadSampleError, match=told):
        encode(processor, PICTURE, turns())


def test_caption_that_breaks_the_template_is_refused(processor):
    with pytest.raises(BadSampleError, match="gives 2 image tokens for one picture"):
        encode(processor, PICTURE, turns("a <|image_pad|> of text"))


def test_caption_that_holds_a_terminator_is_trained_on_whole(processor):
    row = encode(processor, PICTURE, turns("a <|im_end|> of text"))
    assert processor.tokenizer.decode(row.ids[row.mask]) == "a <|im_end|> of text<|im_end|>\n"


def test_caption_that_is_not_in_composed_form_is_still_the_caption(processor):
    row = encode(processor, PICTURE, turns("gro\u0308ßer"))
    assert processor.tokenizer.decode(row.ids[row.mask]) == "größer<|im_end|>\n"


def test_picture_that_is_too_flat_for_the_model_is_refused(processor):
    with pytest.raises(PictureError, match="the picture of 510 x 2 is refused: absolute aspect ratio"):
        encode(processor, torch.zeros(3, 2, 510), turns())


def test_what_is_no_qwen_processor_is_refused(tmp_path: Path):
    folder = make_processor(tmp_path)
    config = folder / "preprocessor_config.json"
    config.write_text(config.read_text().replace("Qwen2VLImageProcessor", "CLIPImageProcessor"))
    with pytest.raises(ValueError, match=r"CLIPImageProcessor.*not one of Qwen VL"):
        load_processor(folder)
