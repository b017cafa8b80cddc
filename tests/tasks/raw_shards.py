"""Raw shards for tests: samples as the downloader writes them, and tars with any chosen fault."""

import io
import json
import random
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image

Members = list[tuple[str, bytes]]


def picture(seed: int = 0, size: tuple[int, int] = (24, 18), mode: str = "RGB", **save: Any) -> bytes:
    """Return a small JPEG (or another ``format``) of coarse noise."""
    rng = random.Random(seed)
    channels = len(Image.new(mode, (1, 1)).getbands())
    small = Image.frombytes(mode, (6, 5), rng.randbytes(6 * 5 * channels))
    data = io.BytesIO()
    small.resize(size, Image.Resampling.BILINEAR).save(data, **{"format": "JPEG", "quality": 90, **save})
    return data.getvalue()


def uid_of(number: int) -> str:
    """Return the uid of a number."""
    return f"{number:032x}"


def record_of(key: str, uid: str, caption: str, /, **changes: Any) -> dict[str, Any]:
    """Return the JSON of a sample, with fields changed; ``...`` removes a field."""
    record: dict[str, Any] = {
        "uid": uid,
        "face_bboxes": [],
        "caption": caption,
        "url": f"https://example.org/{key}.jpg",
        "key": key,
        "status": "success",
        "error_message": None,
        "width": 24,
        "height": 18,
        "original_width": 48,
        "original_height": 36,
        "exif": "{}",
        "sha256": "0" * 64,
        **changes,
    }
    return {name: value for name, value in record.items() if value is not ...}


def sample(
    key: str,
    number: int = 0,
    caption: str = "a caption",
    /,
    *,
    jpg: bytes | None = None,
    raw_json: bytes | None = None,
    txt: bytes | None = None,
    **changes: Any,
) -> Members:
    """Return the members of a sample; ``changes`` apply to its JSON."""
    record = record_of(key, uid_of(number), caption, **changes)
    return [
        (f"{key}.jpg", picture(number % 5) if jpg is None else jpg),
        (f"{key}.json", json.dumps(record).encode() if raw_json is None else raw_json),
        (f"{key}.txt", caption.encode() if txt is None else txt),
    ]


def tar_bytes(members: Iterable[tuple[str, bytes]], format: int = tarfile.GNU_FORMAT) -> bytes:
    """Return a tar of regular files."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=format, encoding="utf-8", errors="surrogateescape") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return data.getvalue()


def without_end(raw: bytes) -> bytes:
    """Return the tar without the zero blocks at its end."""
    return raw[: -(-len(raw.rstrip(b"\0")) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE]


def write_shard(folder: Path, number: int, samples: Iterable[Members]) -> Path:
    """Write ``NNNNNNNN.tar`` with the members of all samples."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:08d}.tar"
    path.write_bytes(tar_bytes(member for members in samples for member in members))
    return path


def write_stats(folder: Path, number: int, successes: int, /, **changes: Any) -> Path:
    """Write ``NNNNNNNN_stats.json`` as img2dataset does; ``...`` removes a field."""
    stats = {
        "count": successes + 3,
        "successes": successes,
        "failed_to_download": 2,
        "failed_to_resize": 1,
        "duration": 1.5,
        "status_dict": {"success": successes, "HTTP Error 404: Not Found": 2, "Image decoding error": 1},
        **changes,
    }
    path = folder / f"{number:08d}_stats.json"
    path.write_text(json.dumps({name: value for name, value in stats.items() if value is not ...}))
    return path


def files_under(folder: Path, but: Iterable[str] = ()) -> dict[str, bytes]:
    """Return the bytes of every file under ``folder`` by relative name, except paths that contain one of ``but``."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    names = {str(path.relative_to(folder)): path for path in paths}
    return {name: path.read_bytes() for name, path in names.items() if not any(part in name for part in but)}
