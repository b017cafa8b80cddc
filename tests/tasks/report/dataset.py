"""A small prepared data root with difficult content: hostile texts, odd pictures, repeats, opt-outs."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tasks.audit.gate import add_up
from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import ConvertSettings
from tasks.io.files import write_json
from tests.tasks.convert.serial import convert
from tests.tasks.raw_shards import Members, picture, record_of, sample, uid_of, write_shard, write_stats

SCRIPT = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
REVERSED = "an \u202eafter\u202c override"
PLACEHOLDER = "ab" * 32
OPTED_OUT = 30
HOSTILE_REASON = "<b>$x_ $</b> _hidden\x01"
NUMBER = 60


def jpeg(pixels: np.ndarray) -> bytes:
    """Return the array as a JPEG."""
    data = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(data, "JPEG", quality=95)
    return data.getvalue()


def noise(height: int = 64, width: int = 96) -> np.ndarray:
    """Return pixels of every colour."""
    return np.random.default_rng(1).integers(0, 255, (height, width, 3))


def banded() -> bytes:
    """Return a picture whose lower half a decoder filled."""
    pixels = noise()
    pixels[32:] = 128
    return jpeg(pixels)


def _changes(number: int) -> tuple[str, dict[str, Any]]:
    """Return the caption, and the peculiarities of the sample."""
    special: dict[int, tuple[str, dict[str, Any]]] = {
        1: (SCRIPT, {"url": 'http://evil.example/"><script>alert(1)</script>'}),
        2: (REVERSED, {"url": "javascript:alert(document.domain)"}),
        3: ("long " * 2000, {"url": "https://EXAMPLE.org:8443/" + "x" * 3000}),
        4: ("   ", {}),
        5: ("a lone surrogate", {"url": "https://example.org/\ud800"}),
        6: ("turned", {"exif": '{"Image Orientation": "Rotated 90 CW", "Image Make": "x"}'}),
        7: ("upright", {"exif": '{"Image Orientation": "Horizontal (normal)"}'}),
        8: ("two faces", {"face_bboxes": [[0.1, 0.1, 0.2, 0.2], [0.5, 0.5, 0.6, 0.6]]}),
        9: ("grey", {"jpg": picture(9, (64, 48), mode="L")}),
        10: ("uniform", {"jpg": jpeg(np.full((40, 40, 3), (200, 30, 30)))}),
        11: ("cut", {"jpg": banded()}),
        12: ("not a picture", {"jpg": b"GIF89a"}),
        OPTED_OUT: ("please do not use this", {}),
    }
    caption, changes = special.get(number, (f"a picture of {'a cat' if number % 2 else 'a dog'}, number {number}", {}))
    if number in {20, 21, 22}:
        changes = {"sha256": PLACEHOLDER}
    return caption, {"sha256": f"{number:064x}", **changes}


def _sample(number: int) -> tuple[Members, dict[str, Any]]:
    key = f"{number // 20:05d}{number % 20:05d}"
    caption, changes = _changes(number)
    jpg = changes.pop("jpg", None) or picture(number, (120 + number, 90))
    members = sample(key, number, caption, jpg=jpg, **changes)
    row = record_of(key, uid_of(number), caption, **changes)
    return members, row | {"url": row["url"].encode("utf-8", "replace").decode()}


def prepared_root(folder: Path, *, tables: bool = True) -> DataRoot:
    """Write, audit and convert three shards. ``tables``: whether the downloader's tables exist."""
    data = DataRoot(folder)
    for shard in range(3):
        samples = [_sample(number) for number in range(20 * shard, 20 * shard + 20)]
        write_shard(data.shards, shard, [members for members, _ in samples])
        reasons = {"success": 20, HOSTILE_REASON: 2, "Image decoding error": 1}
        write_stats(data.shards, shard, 20, status_dict=reasons)
        if tables:
            pq.write_table(pa.Table.from_pylist([row for _, row in samples]), data.shards / f"{shard:08d}.parquet")
    _audit(data)
    excluded = folder / "opt-outs.txt"
    excluded.write_text(uid_of(OPTED_OUT) + "\n")
    settings = ConvertSettings(max_samples_per_tar=25, validation_fraction=0.25, exclude_uids=excluded)
    convert(data.shards, data.dataset("energon"), settings, data.audit)
    return data


def _audit(data: DataRoot) -> None:
    jobs = [AuditJob(shards_dir=data.shards, audit_dir=data.audit, shard=f"{shard:08d}") for shard in range(3)]
    totals = add_up([audit_shard(job) for job in jobs])
    write_json(data.audit / "totals.json", totals.model_dump(mode="json"))
