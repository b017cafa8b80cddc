"""Valid conversations of a training sample."""

import json
import re
from typing import Any

import pytest

from tasks.energon.conversation import conversation_fault
from tests.tasks.energon.dataset import PROMPT, conversation

IMAGE, ASK, ANSWER = {"type": "image"}, {"type": "text", "text": PROMPT}, {"type": "text", "text": "a cat"}


def turns(user: Any, assistant: Any) -> dict[str, Any]:
    """Return a document with the given contents."""
    return {"conversation": [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]}


@pytest.mark.parametrize("form", [lambda value: value, json.dumps, lambda value: json.dumps(value).encode()])
def test_good_conversation_passes_parsed_or_as_text(form: Any) -> None:
    assert conversation_fault(form(conversation(1)), PROMPT) is None


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (turns([ASK], [ANSWER]), "instead of an image and a text"),
        (turns([IMAGE, IMAGE, ASK], [ANSWER]), "instead of an image and a text"),
        (turns([IMAGE, {"type": "text", "text": "What?"}], [ANSWER]), "'What\\?' instead of the prompt"),
        (turns([IMAGE, ASK], []), "instead of one text"),
        (turns([IMAGE, ASK], [IMAGE]), "instead of one text"),
        (turns([IMAGE, ASK], [{"type": "text", "text": " \n"}]), "caption is blank"),
        (turns([IMAGE, ASK], [{"type": "text"}]), "caption is blank"),
        (turns("Describe", "a cat"), "instead of an image"),
        ({"conversation": conversation(1)["conversation"][:1]}, "not one user turn"),
        ({"conversation": conversation(1)["conversation"][::-1]}, "not one user turn"),
        ({"conversation": ["user", "assistant"]}, "not one user turn"),
        ({}, "not one user turn"),
        (None, "not one user turn"),
        (b"{", "not JSON"),
        (b"\xff\xfe\xfd", "not JSON"),
    ],
)
def test_fault_in_a_conversation_is_said(document: object, complaint: str) -> None:
    assert re.search(complaint, conversation_fault(document, PROMPT) or "passed")
