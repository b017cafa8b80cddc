"""One raw sample: the checks of its members, the verdict, and its conversation."""

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
"""Special tokens in the form of Qwen, Llama and others, and placeholders of media."""

_SIZES = ("width", "height", "original_width", "original_height")
_UNCHECKED = ("url", "sha256", *_SIZES)
"""Values of the record that are copied into the conversation unchanged, whatever their type."""

MAX_TEXT_BYTES = 256 << 20
"""Maximum bytes of JSON or TXT of a sample: both must fit into a worker's memory several times."""

_DEEP = 100
_MAX_DEPTH = 800
"""Maximum nesting of the JSON: Python's own limit depends on the depth of the caller's stack."""
_TOO_DEEP = f"the JSON is nested more than {_MAX_DEPTH} deep"


class UnusableSampleError(Exception):
    """Raised for a sample that cannot be used; the message is the cause in the reject table."""


class Verdict(NamedTuple):
    """The verdict on a sample, without regard to other samples.

    ``before_uid`` and ``after_uid`` are reject reasons (None: accepted) that apply before and after the check for an
    earlier copy of the uid; ``cause`` explains the reason for people.
    """

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
    """Return the verdict on a sample whose members are not exactly JPG, JSON and TXT; None if they are."""
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
    """Return the verdict on a sample whose JSON or TXT is too large to be read; None if neither is."""
    sizes = (("JSON", json_size), ("TXT", txt_size))
    large = next((name for name, size in sizes if size > MAX_TEXT_BYTES), None)
    if large is None:
        return None
    return Verdict(before_uid=INVALID, cause=f"the {large} is larger than {MAX_TEXT_BYTES >> 20} MiB")


def judge(key: str, jpg: Content, json_bytes: bytes, txt: bytes) -> Verdict:
    """Return the verdict on a sample that has all its members."""
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
    """Return whether the JSON can certainly be written as a conversation, without trying: a try takes 8 microseconds.

    Writing fails for unpaired surrogates, which occur as escapes or as non-ASCII bytes (JSON in UTF-16 contains zero
    bytes), and for deep nesting.
    """
    odd = b"\\ud" in json_bytes or b"\\uD" in json_bytes or b"\0" in json_bytes
    return not odd and json_bytes.isascii() and json_bytes.count(b"[") + json_bytes.count(b"{") < _DEEP


def parse(json_bytes: bytes, txt: bytes) -> tuple[dict[str, Any], str]:
    """Return the record in the JSON member and the caption in the TXT member. Raises UnusableSampleError."""
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
    """Return the conversation member of a converted sample, as UTF-8.

    ``source`` contains ``dataset`` and ``revision``. Missing values of the record become null, as do values that are
    or contain NaN or Infinity, which strict JSON parsers reject. Raises UnusableSampleError if a text cannot be
    written as UTF-8, or the record is nested too deep.
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
    """Return whether all copied values of the record are finite, so that none of them becomes null."""
    return all(_is_finite(record.get(name)) for name in _UNCHECKED)


def _finite_or_none(value: Any) -> Any:
    return value if _is_finite(value) else None


def _is_finite(value: Any) -> bool:
    """Return whether every number in a JSON value is finite; without recursion, since the value is untrusted."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)
    return True


def split_hash(uid: str) -> int:
    """Return the first 8 bytes, big endian, of the uid's SHA-256 as a number; it decides the split."""
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8], "big")


def _depth(value: Any) -> int:
    """Return how deep lists and objects are nested; without recursion, since the value is untrusted."""
    depth, level = 0, [value]
    while level:
        depth += 1
        nested = (v.values() if isinstance(v, dict) else v for v in level if isinstance(v, dict | list))
        level = [child for children in nested for child in children if isinstance(child, dict | list)]
    return depth
