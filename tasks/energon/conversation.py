"""The conversation that a training sample must have (DESIGN section 3, "Converted sample")."""

import json


class BadSampleError(ValueError):
    """Raised for a sample that can be decoded but cannot be used for training."""


def conversation_fault(conversation: object, prompt: str) -> str | None:
    """Return what is wrong with a conversation, or None if it is an image and the prompt, answered by a caption.

    ``conversation`` comes from a loader: the JSON document as text, as bytes or already parsed.
    """
    if isinstance(conversation, str | bytes):
        try:
            conversation = json.loads(conversation)
        except ValueError as error:
            return f"the conversation is not JSON: {error}"
    turns = conversation.get("conversation") if isinstance(conversation, dict) else None
    if not isinstance(turns, list) or [_get(turn, "role") for turn in turns] != ["user", "assistant"]:
        return "the conversation is not one user turn and one assistant turn"
    return _user_fault(turns[0], prompt) or _assistant_fault(turns[1])


def _user_fault(turn: object, prompt: str) -> str | None:
    if _kinds(turn) != ["image", "text"]:
        return f"the user turn holds {_kinds(turn)} instead of an image and a text"
    text = _texts(turn)[0]
    return None if text == prompt else f"the user turn says {text!r} instead of the prompt {prompt!r}"


def _assistant_fault(turn: object) -> str | None:
    if _kinds(turn) != ["text"]:
        return f"the assistant turn holds {_kinds(turn)} instead of one text"
    caption = _texts(turn)[0]
    return None if isinstance(caption, str) and caption.strip() else "the caption is blank"


def _kinds(turn: object) -> list[object]:
    return [_get(part, "type") for part in _parts(turn)]


def _texts(turn: object) -> list[object]:
    return [_get(part, "text") for part in _parts(turn) if _get(part, "type") == "text"]


def _parts(turn: object) -> list[object]:
    content = _get(turn, "content")
    return content if isinstance(content, list) else []


def _get(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None
