"""A serial conversion, written from the data contract (docs) without any of the pipeline's code.

One pass over the tars, one sample after the other, every picture fully decoded, every tar built in memory.
"""

import hashlib
import io
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

MARKERS = ("<|im_end|>", "<|im_start|>", "<|vision_start|>", "<image>", "<video>")
"""Those chat markers that the tests use."""


class BrokenTar(Exception):
    """A tar that stops the conversion: its name and the faulty member."""


@dataclass
class Reference:
    """The output: tars by name, and the manifest's numbers."""

    opened: list[str] = field(default_factory=list)
    inputs: int = 0
    rejects: list[tuple[str, str]] = field(default_factory=list)
    samples: dict[str, list[tuple[str, bytes, bytes]]] = field(default_factory=lambda: {"train": [], "val": []})
    tars: dict[str, bytes] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, Any]:
        reasons = Counter(reason for _, reason in self.rejects)
        train, val = (len(self.samples[split]) for split in ("train", "val"))
        return {
            "input_samples": self.inputs,
            "train": train,
            "val": val,
            "skipped": len(self.rejects),
            "skip_reasons": dict(reasons),
        }


def convert(
    source: Path,
    *,
    prompt: str = "Describe this image.",
    max_samples_per_tar: int = 10_000,
    validation_fraction: float = 0.01,
    maximum_samples: int | None = None,
    excluded: frozenset[str] = frozenset(),
    dataset: str = "mlfoundations/datacomp_1b",
    revision: str = "086ebeee20d4cc3b3e7c05ae703fcf278ae3a759",
    drop_chat_markers: bool = False,
    drop_extreme_aspect_ratios: bool = False,
) -> Reference:
    """Convert the tars of ``source``. Raises BrokenTar."""
    result, emitted = Reference(), set[str]()
    for path in sorted(source.glob("*.tar"), key=lambda path: path.name):
        if len(emitted) == maximum_samples:
            break
        result.opened.append(path.name)
        for key, members in samples_of(path):
            result.inputs += 1
            record, reason = judge(key, members, emitted, excluded)
            if not reason and drop_chat_markers and any(m in members["txt"].decode() for m in MARKERS):
                reason = "chat_marker"
            if not reason and drop_extreme_aspect_ratios and is_extreme(members["jpg"]):
                reason = "extreme_aspect_ratio"
            if reason:
                result.rejects.append((path.name, reason))
                continue
            emitted.add(record["uid"])
            conversation = conversation_of(record, members["txt"].decode(), prompt, dataset, revision)
            chance = int.from_bytes(hashlib.sha256(record["uid"].encode()).digest()[:8], "big") / 2**64
            split = "val" if chance < validation_fraction else "train"
            result.samples[split].append((record["uid"], members["jpg"], conversation))
            if len(emitted) == maximum_samples:
                break
    for split, samples in result.samples.items():
        for number, start in enumerate(range(0, len(samples), max_samples_per_tar)):
            name = f"{split}-shard-{number:06d}.tar"
            result.tars[name] = tar_of(samples[start : start + max_samples_per_tar])
    return result


def samples_of(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield groups of contiguous members with the same key."""
    key, members = None, dict[str, bytes]()
    with tarfile.open(path, "r:", encoding="utf-8", errors="surrogateescape") as tar:
        for info in tar:
            if not info.isreg():
                continue
            name = info.name.split("/")[-1]
            if "." not in name:
                raise BrokenTar(path.name, name)
            now, extension = name.rsplit(".", 1)
            if now != key and key is not None:
                yield key, members
                members = {}
            key = now
            if extension in members:
                raise BrokenTar(path.name, name)
            data = tar.extractfile(info)
            members[extension] = data.read() if data else b""
    if key is not None:
        yield key, members


def judge(
    key: str, members: dict[str, bytes], emitted: set[str], excluded: frozenset[str]
) -> tuple[dict[str, Any], str | None]:
    """Return the record, and the reason to reject the sample."""
    wanted = {"jpg", "json", "txt"}
    if wanted - members.keys():
        return {}, "missing_" + "_".join(sorted(wanted - members.keys()))
    if members.keys() - wanted:
        names = [name.encode("utf-8", "backslashreplace").decode() for name in sorted(members.keys() - wanted)]
        return {}, "unexpected_" + "_".join(names)
    try:
        record, caption = json.loads(members["json"]), members["txt"].decode("utf-8")
        if not sound(key, record, caption):
            return {}, "invalid_sample"
        conversation_of(record, caption, "", "", "")
    except (ValueError, RecursionError):
        return {}, "invalid_sample"
    if record["uid"] in emitted:
        return {}, "duplicate_uid"
    if record["uid"] in excluded:
        return {}, "excluded_uid"
    if not caption.strip():
        return {}, "empty_caption"
    return record, None if decodes(members["jpg"]) else "invalid_sample"


def sound(key: str, record: Any, caption: str) -> bool:
    """Return whether the record is one that the downloader writes for a success."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("uid"), str)
        and re.fullmatch("[0-9a-f]{32}", record["uid"]) is not None
        and record.get("key") == key
        and record.get("status") == "success"
        and record.get("caption", caption) == caption
        and isinstance(record.get("face_bboxes"), list)
    )


def decodes(jpg: bytes) -> bool:
    """Return whether the picture is a JPEG that decodes in full."""
    try:
        with Image.open(io.BytesIO(jpg)) as image:
            if image.format != "JPEG":
                return False
            image.load()
    except Exception:
        return False
    return True


def is_extreme(jpg: bytes) -> bool:
    """Return whether one side is more than 200 times the other."""
    with Image.open(io.BytesIO(jpg)) as image:
        return max(image.size) > 200 * min(image.size)


def conversation_of(record: dict[str, Any], caption: str, prompt: str, dataset: str, revision: str) -> bytes:
    """Return the conversation member."""
    user = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": caption}]}
    source = {
        "dataset": dataset,
        "revision": revision,
        "uid": record["uid"],
        "url": record.get("url"),
        "source_key": record["key"],
        "download_status": record["status"],
        "original_download_sha256": record.get("sha256"),
        "face_bbox_count": len(record["face_bboxes"]),
        "width": record.get("width"),
        "height": record.get("height"),
        "original_width": record.get("original_width"),
        "original_height": record.get("original_height"),
    }
    source = {name: None if holds_nan_or_infinity(value) else value for name, value in source.items()}
    text = json.dumps({"conversation": [user, answer], "source": source}, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8")


def holds_nan_or_infinity(value: Any) -> bool:
    """Return whether strict JSON cannot represent the value."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return True
    return False


def tar_of(samples: list[tuple[str, bytes, bytes]]) -> bytes:
    """Return an output tar."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for uid, jpg, conversation in samples:
            for name, content in ((f"{uid}.image.jpg", jpg), (f"{uid}.conversation.json", conversation)):
                info = tarfile.TarInfo(name)
                info.size, info.mode, info.mtime, info.uid, info.gid = len(content), 0o644, 0, 0, 0
                info.uname = info.gname = ""
                tar.addfile(info, io.BytesIO(content))
    return data.getvalue()
