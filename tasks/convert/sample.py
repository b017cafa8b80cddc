"""One raw sample: what its members say, whether it can be used, and the conversation it becomes."""

import hashlib
import json
import math
import re
from collections.abc import Set
from typing import Any, NamedTuple

from tasks.convert.jpeg import JpegVerdict, check_jpeg
from tasks.io.byte_ranges import Content
from tasks.io.files import readable_text
from tasks.io.raw_tar import SAMPLE_MEMBERS

INVALID = "invalid_sample"
EMPTY_CAPTION = "empty_caption"

_WHOLE = frozenset(SAMPLE_MEMBERS)
uid_pattern = re.compile(r"[0-9a-f]{32}")
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_CHAT_MARKER = re.compile(r"<\|[A-Za-z0-9_]+\|>|<(?:image|video|audio)>")
"""Special tokens in the form that Qwen, Llama and others give them, and the placeholders of media."""

_SIZES = ("width", "height", "original_width", "original_height")
_UNCHECKED = ("url", "sha256", *_SIZES)
"""Values of the record that go into the conversation as they are, whatever their type."""

MAX_TEXT_BYTES = 256 << 20
"""Bytes of JSON or TXT above which a sample is rejected: both must fit into a worker's memory several times."""

_DEEP = 100
_MAX_DEPTH = 800
"""Nesting that every stack can hold: Python's own limit depends on how deep the caller is."""
_TOO_DEEP = f"the JSON is nested more than {_MAX_DEPTH} deep"


class UnusableSampleError(Exception):
    """The sample cannot be used; the message is the cause for the reject table."""


class Verdict(NamedTuple):
    """What a sample alone decides. ``before_uid`` and ``after_uid`` are reject reasons (None: fine) that count
    before and after the question whether the uid was seen; ``cause`` says more for people."""

    uid: str | None = None
    before_uid: str | None = None
    after_uid: str | None = None
    cause: str | None = None
    caption_characters: int | None = None
    width: int | None = None
    height: int | None = None
    chat_marker: bool | None = None
    not_finite: bool | None = None


def judge_members(extensions: Set[str]) -> Verdict | None:
    """The verdict on a sample whose members are not exactly JPG, JSON and TXT; None if they are."""
    if extensions == _WHOLE:
        return None
    missing = sorted(_WHOLE - extensions)
    names = [readable_text(name) for name in sorted(extensions - _WHOLE)]
    if missing:
        instead = f"; it has {', '.join(names)} instead, which is not converted" if names else ""
        return Verdict(
            before_uid="_".join(["missing", *missing]), cause=f"the sample lacks {', '.join(missing)}{instead}"
        )
    return Verdict(before_uid="_".join(["unexpected", *names]), cause=f"unexpected members: {', '.join(names)}")


def judge_sizes(json_size: int, txt_size: int) -> Verdict | None:
    """Return the verdict on a sample whose texts are too large to be read; None if they are not."""
    sizes = (("JSON", json_size), ("TXT", txt_size))
    large = next((name for name, size in sizes if size > MAX_TEXT_BYTES), None)
    if large is None:
        return None
    return Verdict(before_uid=INVALID, cause=f"the {large} is larger than {MAX_TEXT_BYTES >> 20} MiB")


def judge(key: str, jpg: Content, json_bytes: bytes, txt: bytes) -> Verdict:
    """The verdict on a sample with all its members."""
    uid = None
    try:
        record, caption = parse(json_bytes, txt)
        uid = _uid(record)
        _check_record(key, record, caption)
        if not _surely_writable(json_bytes):
            conversation_json(record, caption, prompt="", source={})
    except UnusableSampleError as error:
        return Verdict(uid=uid, before_uid=INVALID, cause=str(error))
    if not caption.strip():
        return Verdict(uid=uid, after_uid=EMPTY_CAPTION, cause="the caption is blank", caption_characters=len(caption))
    picture = check_jpeg(jpg)
    return _with_picture(uid, caption, picture)._replace(not_finite=not _all_finite(record))


def _with_picture(uid: str, caption: str, picture: JpegVerdict) -> Verdict:
    return Verdict(
        uid=uid,
        after_uid=INVALID if picture.fault else None,
        cause=picture.fault,
        caption_characters=len(caption),
        width=picture.width,
        height=picture.height,
        chat_marker=_CHAT_MARKER.search(caption) is not None,
    )


def _surely_writable(json_bytes: bytes) -> bool:
    """Whether nothing in the JSON can keep it from becoming a conversation: no half of a surrogate pair, which comes
    as an escape or as bytes beyond ASCII (JSON in UTF-16 has zero bytes), and no depth. To try takes 8 microseconds.
    """
    odd = b"\\ud" in json_bytes or b"\\uD" in json_bytes or b"\0" in json_bytes
    return not odd and json_bytes.isascii() and json_bytes.count(b"[") + json_bytes.count(b"{") < _DEEP


def parse(json_bytes: bytes, txt: bytes) -> tuple[dict[str, Any], str]:
    """The record in the JSON member and the caption in the TXT member. Raises UnusableSampleError."""
    try:
        caption = txt.decode("utf-8")
    except UnicodeDecodeError:
        raise UnusableSampleError("the TXT is not UTF-8") from None
    try:
        record = json.loads(json_bytes)
    except RecursionError:
        raise UnusableSampleError(_TOO_DEEP) from None
    except ValueError as error:
        raise UnusableSampleError(f"the JSON cannot be read: {error}") from None
    if not isinstance(record, dict):
        raise UnusableSampleError(f"the JSON is a {type(record).__name__}, not an object")
    if json_bytes.count(b"[") + json_bytes.count(b"{") > _MAX_DEPTH and _depth(record) > _MAX_DEPTH:
        raise UnusableSampleError(_TOO_DEEP)
    return record, caption


def _uid(record: dict[str, Any]) -> str:
    uid = record.get("uid")
    if not isinstance(uid, str) or not uid_pattern.fullmatch(uid):
        raise UnusableSampleError("the JSON's uid is not 32 lower-case hex digits")
    return uid


def _check_record(key: str, record: dict[str, Any], caption: str) -> None:
    if record.get("key") != key:
        raise UnusableSampleError("the JSON's key is not the key in the tar")
    if record.get("status") != "success":
        raise UnusableSampleError("the JSON's status is not success")
    if "caption" in record and record["caption"] != caption:
        null = record["caption"] is None
        raise UnusableSampleError("the JSON's caption is null" if null else "the JSON's caption differs from the TXT")
    if not isinstance(record.get("face_bboxes"), list):
        null = record.get("face_bboxes") is None
        raise UnusableSampleError(f"the JSON's face_bboxes is {'null' if null else 'not a list'}")


def conversation_json(record: dict[str, Any], caption: str, prompt: str, source: dict[str, str]) -> bytes:
    """The conversation member of a converted sample, UTF-8.

    ``source`` gives ``dataset`` and ``revision``; absent values of the record become null, and so does a value that is
    or holds NaN or Infinity, which strict JSON parsers reject. Raises
    UnusableSampleError if a text cannot be written as UTF-8, or the record is nested too deep.
    """
    value = {
        "conversation": [
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]},
            {"role": "assistant", "content": [{"type": "text", "text": caption}]},
        ],
        "source": {
            "dataset": source.get("dataset"),
            "revision": source.get("revision"),
            "uid": record.get("uid"),
            "url": _finite_or_none(record.get("url")),
            "source_key": record.get("key"),
            "download_status": record.get("status"),
            "original_download_sha256": _finite_or_none(record.get("sha256")),
            "face_bbox_count": len(record["face_bboxes"]),
            **{name: _finite_or_none(record.get(name)) for name in _SIZES},
        },
    }
    try:
        return _compact.encode(value).encode("utf-8")
    except UnicodeEncodeError:
        raise UnusableSampleError("a text of the JSON cannot be written as UTF-8") from None
    except RecursionError:
        raise UnusableSampleError(_TOO_DEEP) from None


def _all_finite(record: dict[str, Any]) -> bool:
    """Return whether the conversation keeps every value of the record."""
    return all(_is_finite(record.get(name)) for name in _UNCHECKED)


def _finite_or_none(value: Any) -> Any:
    return value if _is_finite(value) else None


def _is_finite(value: Any) -> bool:
    """Return whether every number in a JSON value is finite; without recursion, since the value is hostile."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)
    return True


def split_hash(uid: str) -> int:
    """The first 8 bytes, big endian, of the SHA-256 of the uid: decides its split."""
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8], "big")


def _depth(value: Any) -> int:
    """How deep lists and objects are nested; without recursion, since the value is hostile."""
    depth, level = 0, [value]
    while level:
        depth += 1
        nested = (v.values() if isinstance(v, dict) else v for v in level if isinstance(v, dict | list))
        level = [child for children in nested for child in children if isinstance(child, dict | list)]
    return depth
