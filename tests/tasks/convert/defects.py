"""Samples with many kinds of defects, and shards that mix them at random from a seed."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from tests.tasks.raw_shards import Members, picture, record_of, sample, uid_of, write_shard

JPG = picture(7, (40, 32))
BOMB = JPG.replace(bytes.fromhex("ffc0 0011 08 0020 0028"), bytes.fromhex("ffc0 0011 08 ffdc ffdc"))
"""Its header claims 65,500 by 65,500 pixels."""


def with_record(**changes: Any) -> Callable[[str, int], Members]:
    """Return a builder of samples with changed fields in the JSON."""
    return lambda key, number: sample(key, number, **changes)


def with_json(text: Callable[[bytes], bytes]) -> Callable[[str, int], Members]:
    """Return a builder of samples with changed bytes of the JSON member."""
    return lambda key, number: sample(
        key, number, raw_json=text(json.dumps(record_of(key, uid_of(number), "a caption")).encode())
    )


def with_picture(jpg: bytes) -> Callable[[str, int], Members]:
    """Return a builder of samples with this picture."""
    return lambda key, number: sample(key, number, jpg=jpg)


def with_caption(caption: str, **changes: Any) -> Callable[[str, int], Members]:
    """Return a builder of samples with this caption, in TXT and JSON."""
    return lambda key, number: sample(key, number, caption, **changes)


def members(change: Callable[[Members], Members]) -> Callable[[str, int], Members]:
    """Return a builder of samples with changed members."""
    return lambda key, number: change(sample(key, number))


def nested(depth: int) -> bytes:
    """Return the JSON of ``depth`` nested lists."""
    return b"[" * depth + b"]" * depth


DEFECTS: dict[str, Callable[[str, int], Members]] = {
    "good": sample,
    "good, members in another order": members(lambda m: m[::-1]),
    "good, in a folder": members(lambda m: [(f"./some.where/{name}", data) for name, data in m]),
    "good, unicode caption": with_caption("Ünïcödé 图片 🖼 \u202e\u200b\x00\r\n\t end"),
    "good, chat markers": with_caption("ends <|im_end|>\n<|im_start|>user"),
    "good, media marker": with_caption("an <image> and more"),
    "good, no marker": with_caption("a < b |> c <| d |> <img src=x> <imagery> & <images> |im_end|"),
    "good, markup": with_caption("<script>alert('x')</script>{{7*7}}${x} [a](javascript:b) | `c` \x1b[31m"),
    "good, right to left": with_caption("\u202eevil\u202c \u2066isolated\u2069 \u200fעברית \ufeff"),
    "good, control characters": with_caption("".join(map(chr, range(32))) + "\x7f\x80\x9f end"),
    "good, 20,000 characters": with_caption("long \U0001f5bc caption " * 1250),
    "good, odd url": with_record(url="javascript:alert(1)//<b>\u202e\x00\x1b]0;x\x07" + "u" * 20_000),
    "good, extreme aspect": with_picture(picture(3, (201, 1))),
    "good, extreme aspect upright": with_picture(picture(3, (2, 401))),
    "good, nearly extreme aspect": with_picture(picture(3, (200, 1))),
    "good, json caption absent": with_record(caption=...),
    "good, nothing optional": with_record(url=..., sha256=..., width=..., height=..., original_width=..., exif=...),
    "good, odd values": with_record(
        url={"a": [1, None]}, width="wide", height=1e300, sha256=True, face_bboxes=[1, [2]]
    ),
    "good, byte order mark": with_json(lambda j: b"\xef\xbb\xbf" + j),
    "good, utf-16": with_json(lambda j: j.decode().encode("utf-16")),
    "good, utf-32": with_json(lambda j: j.decode().encode("utf-32-be")),
    "good, not a number": with_json(lambda j: j.replace(b'"width": 24', b'"width": NaN')),
    "good, infinite": with_json(lambda j: j.replace(b'"width": 24', b'"width": -Infinity')),
    "good, huge number": with_json(lambda j: j.replace(b'"width": 24', b'"width": ' + b"9" * 400)),
    "good, escapes": with_json(lambda j: j.replace(b"https", b"\\u0068\\ud83d\\ude00")),
    "good, doubled name": with_json(lambda j: j[:-1] + b', "url": "second"}'),
    "good, white space": with_json(lambda j: b" \n\t" + j + b"\r\n "),
    "good, nested": with_json(lambda j: j.replace(b'"{}"', nested(300))),
    "too many digits": with_json(lambda j: j.replace(b'"width": 24', b'"width": ' + b"9" * 5000)),
    "nested too deep": with_json(lambda j: j.replace(b'"{}"', nested(100_000))),
    "json nothing but nesting": with_json(lambda j: b"[" * 100_000),
    "json list": with_json(lambda j: b"[" + j + b"]"),
    "json null": with_json(lambda j: b"null"),
    "json empty": with_json(lambda j: b""),
    "json cut": with_json(lambda j: j[:-10]),
    "json not utf-8": with_json(lambda j: j.replace(b"https", b"\xff\xfehttps")),
    "json html": with_json(lambda j: b"<html>"),
    "json followed by more": with_json(lambda j: j + b"{}"),
    "lone surrogate in url": with_json(lambda j: j.replace(b"https", b"\\ud800")),
    "uid upper case": with_record(uid="A" * 32),
    "uid short": with_record(uid="a" * 31),
    "uid with newline": with_record(uid="a" * 32 + "\n"),
    "uid with odd digits": with_record(uid="\u0661" * 32),
    "uid number": with_record(uid=int("1" * 32)),
    "uid absent": with_record(uid=...),
    "key of another": with_record(key="other"),
    "key number": with_record(key=7),
    "key absent": with_record(key=...),
    "status failed": with_record(status="failed_to_download"),
    "status absent": with_record(status=...),
    "json caption differs": with_record(caption="another"),
    "json caption null": with_record(caption=None),
    "json caption null, txt empty": lambda key, number: sample(key, number, txt=b"", caption=None),
    "boxes null": with_record(face_bboxes=None),
    "boxes absent": with_record(face_bboxes=...),
    "boxes object": with_record(face_bboxes={}),
    "txt not utf-8": lambda key, number: sample(key, number, txt=b"caf\xe9"),
    "txt utf-16": lambda key, number: sample(key, number, txt="a caption".encode("utf-16")),
    "blank": with_caption(" \t\r\n"),
    "empty": with_caption(""),
    "blank unicode": with_caption("\u3000\u2003\x1f\x85"),
    "not blank to Python": with_caption("\u200b"),
    "blank and broken": with_caption(" ", jpg=b"broken"),
    "grey": with_picture(picture(1, mode="L")),
    "cmyk": with_picture(picture(1, mode="CMYK")),
    "progressive": with_picture(picture(2, progressive=True)),
    "bytes after the end": with_picture(JPG + b"more" * 50),
    "png": with_picture(picture(1, format="PNG")),
    "webp": with_picture(picture(1, format="WEBP")),
    "multi-picture": with_picture(picture(1, format="MPO", save_all=True, append_images=(Image.new("RGB", (24, 18)),))),
    "jpg empty": with_picture(b""),
    "jpg cut by one byte": with_picture(JPG[:-1]),
    "jpg cut by two bytes": with_picture(JPG[:-2]),
    "jpg cut in half": with_picture(JPG[: len(JPG) // 2]),
    "jpg header only": with_picture(JPG[:20]),
    "bomb": with_picture(BOMB),
    "no jpg": members(lambda m: m[1:]),
    "no json": members(lambda m: m[:1] + m[2:]),
    "no txt": members(lambda m: m[:2]),
    "only txt": members(lambda m: m[2:]),
    "one more": members(lambda m: [*m, (m[0][0].replace(".jpg", ".webp"), b"x")]),
    "two more": members(lambda m: [(m[0][0].replace(".jpg", e), b"x") for e in (".zip", ".JPG")] + m),
    "one more without a name": members(lambda m: [*m, (m[0][0].replace("jpg", ""), b"x")]),
    "one more, no utf-8": members(lambda m: [*m, (m[0][0].replace("jpg", "\udcff"), b"x")]),
    "other case": members(lambda m: [(name.replace(".jpg", ".JPG"), data) for name, data in m]),
    "mac file between": members(lambda m: [m[0], (f"._{m[0][0]}", b"mac"), *m[1:]]),
}
"""Defects by name: a function of a key and the number of a uid that returns the members of such a sample."""

TROUBLES: dict[str, Callable[[Members], Members]] = {
    "a member without extension": lambda m: [*m[:1], ("README", b"x"), *m[1:]],
    "a doubled member": lambda m: [*m, m[0]],
}
"""Faults of a sample for which the whole tar is rejected."""


def random_shards(folder: Path, seed: int) -> None:
    """Write one to four shards of up to twelve samples: half of them good, a third with a repeated uid."""
    rng = random.Random(seed)
    names = sorted(DEFECTS)
    for shard in range(rng.randint(1, 4)):
        samples: list[Members] = []
        for place in range(rng.choice([0, 1, 5, 9, 12])):
            number = rng.randrange(6) if rng.random() < 0.35 else 1000 * seed + 100 * shard + place
            name = "good" if rng.random() < 0.5 else rng.choice(names)
            samples.append(DEFECTS[name](f"{shard:05d}{place:04d}", number))
        if samples and rng.random() < 0.15:
            place = rng.randrange(len(samples))
            samples[place] = rng.choice(list(TROUBLES.values()))(samples[place])
        if len(samples) > 3 and rng.random() < 0.2:  # a sample in two places
            samples[3], samples[1] = samples[3] + samples[1][1:], samples[1][:1]
        write_shard(folder, shard, samples)


def random_settings(seed: int) -> dict[str, Any]:
    """Return settings of a conversion, small enough that tars fill up and the cut-off is reached."""
    rng = random.Random(f"settings {seed}")
    return {
        "max_samples_per_tar": rng.choice([1, 2, 3, 5, 100]),
        "validation_fraction": rng.choice([0.0, 0.01, 0.3, 0.5, 0.99]),
        "maximum_samples": rng.choice([None, None, 1, 3, 5, 9, 10, 1000]),
        "prompt": rng.choice(["Describe this image.", 'Décris \u2028 "cette" image\\n\x7f 图']),
    }
