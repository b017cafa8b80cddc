"""Generator of realistic raw shards: JPEGs of about 49 kB at quality 95, up to 512 pixels, as detailed as photographs.

Images are crops of a few large ones whose spectrum falls off like a photograph's. The decoding time depends on the
number of bytes, so a limited number of different JPEGs is enough for any number of samples.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

SEED = 20260803
CANVAS = 2048
DIFFERENT_JPEGS = 1000
FALL_OFF = 1.57
"""Exponent with which the amplitude falls with frequency: it gives 49 kB per image, as in real shards."""


def photographs(count: int, rng: np.random.Generator) -> list[Image.Image]:
    """Generate large images with correlated colour channels."""
    pictures = []
    for _ in range(count):
        shared = _pink(rng)
        channels = [127 + 46 * (0.85 * shared + 0.5 * _pink(rng)) for _ in range(3)]
        pixels = np.stack(channels, axis=-1).clip(0, 255).astype(np.uint8)
        pictures.append(Image.fromarray(pixels))
    return pictures


def _pink(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return noise whose amplitude falls with frequency, with mean 0 and standard deviation 1."""
    frequency = np.hypot(np.fft.fftfreq(CANVAS)[:, None], np.fft.rfftfreq(CANVAS)[None, :]) ** FALL_OFF
    frequency[0, 0] = np.inf
    spectrum = np.fft.rfft2(rng.standard_normal((CANVAS, CANVAS))) / frequency
    noise = np.fft.irfft2(spectrum)
    return np.asarray((noise - noise.mean()) / noise.std())


def jpegs(count: int, longest: int, rng: np.random.Generator) -> list[bytes]:
    """Return different JPEGs with a longest side of ``longest`` pixels and aspect ratios between 3:4 and 16:9."""
    pictures = photographs(3, rng)
    return [_jpeg(pictures[n % len(pictures)], longest, rng) for n in range(count)]


def _jpeg(picture: Image.Image, longest: int, rng: np.random.Generator) -> bytes:
    ratio = rng.uniform(0.56, 1.0)
    size = (longest, round(longest * ratio)) if rng.random() < 0.6 else (round(longest * ratio), longest)
    scale = rng.uniform(1.2, 2.4)
    width, height = round(size[0] * scale), round(size[1] * scale)
    left, top = int(rng.integers(0, CANVAS - width)), int(rng.integers(0, CANVAS - height))
    crop = picture.crop((left, top, left + width, top + height)).resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    crop.save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def write_shards(folder: Path, shards: int, samples: int, longest: int = 512, different: int = DIFFERENT_JPEGS) -> None:
    """Write ``shards`` raw shards of ``samples`` samples each, with stats, as img2dataset does."""
    folder.mkdir(parents=True, exist_ok=True)
    pool = jpegs(min(different, shards * samples), longest, np.random.default_rng(SEED))
    for shard in range(shards):
        with tarfile.open(folder / f"{shard:08d}.tar", "w", format=tarfile.GNU_FORMAT) as tar:
            for name, data in members(shard, samples, pool):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        stats = {"count": samples, "successes": samples, "failed_to_download": 0, "failed_to_resize": 0}
        text = json.dumps(stats | {"status_dict": {"success": samples}})
        (folder / f"{shard:08d}_stats.json").write_text(text, encoding="utf-8")


def members(shard: int, samples: int, pool: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of a shard's members, sample by sample, with the images of ``pool`` in turn."""
    for number in range(samples):
        key = f"{shard:05d}{number:07d}"
        uid = hashlib.sha256(key.encode()).hexdigest()[:32]
        jpg = pool[(shard * samples + number) % len(pool)]
        caption = f"A generated view number {number} of shard {shard}, with hills, light and water"
        record: dict[str, Any] = {
            "uid": uid,
            "face_bboxes": [],
            "caption": caption,
            "url": f"http://127.0.0.1/pictures/{key}.jpg",
            "key": key,
            "status": "success",
            "error_message": None,
            "width": 512,
            "height": 384,
            "original_width": 1024,
            "original_height": 768,
            "exif": "{}",
            "sha256": hashlib.sha256(jpg).hexdigest(),
        }
        yield f"{key}.jpg", jpg
        yield f"{key}.json", json.dumps(record, indent=4).encode()
        yield f"{key}.txt", caption.encode()
