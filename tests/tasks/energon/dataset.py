"""Prepared datasets for tests, as the conversion makes them (DESIGN section 3), or with one fault."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from PIL import Image

PROMPT = "Describe this image."
Member = tuple[str, bytes]


def uid(number: int) -> str:
    """Return the uid of sample ``number``."""
    return f"{number:032x}"


def jpeg(number: int, mode: str = "RGB") -> bytes:
    """Return a small picture that differs for every number."""
    picture = Image.linear_gradient("L").resize((24, 16)).point(lambda value: (value + number * 16) % 256)
    file = io.BytesIO()
    picture.convert(mode).save(file, "JPEG")
    return file.getvalue()


def conversation(number: int, prompt: str = PROMPT) -> dict[str, Any]:
    """Return the conversation document of sample ``number``."""
    user = [{"type": "image"}, {"type": "text", "text": prompt}]
    answer = [{"type": "text", "text": f"picture {number} – größer"}]
    turns = [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]
    return {"conversation": turns, "source": {"uid": uid(number)}}


def sample(number: int, image: bytes | None = None, document: object = None) -> list[Member]:
    """Return the members of sample ``number``, with picture or document replaced."""
    text = json.dumps(document or conversation(number), ensure_ascii=False, separators=(",", ":"))
    return [
        (f"{uid(number)}.image.jpg", image or jpeg(number)),
        (f"{uid(number)}.conversation.json", text.encode()),
    ]


def samples(numbers: range) -> list[Member]:
    """Return the members of several samples."""
    return [member for number in numbers for member in sample(number)]


def write_tar(path: Path, members: list[Member]) -> None:
    """Write a tar as the conversion does."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))


def write_manifest(folder: Path, accepted: bool = True) -> None:
    """Write the manifest of the tars that lie in ``folder``."""
    shards = [_entry(path) for path in sorted(folder.glob("*-shard-*.tar"))]
    counts = {split: sum(shard["samples"] for shard in shards if shard["split"] == split) for split in ("train", "val")}
    manifest = {
        "accepted": accepted,
        "adaptation": {"prompt": PROMPT},
        "counts": counts,
        "output_shards": shards,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")


def make_dataset(folder: Path, **shards: list[Member]) -> Path:
    """Write a dataset of the given shards: ``train_0=samples(range(3))`` is ``train-shard-000000.tar``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, members in shards.items():
        split, number = name.split("_")
        write_tar(folder / f"{split}-shard-{int(number):06d}.tar", members)
    write_manifest(folder)
    return folder


def good_dataset(folder: Path) -> Path:
    """Write a dataset of two train shards and one val shard: 3, 2 and 2 samples."""
    return make_dataset(folder, train_0=samples(range(3)), train_1=samples(range(3, 5)), val_0=samples(range(5, 7)))


def _entry(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    with tarfile.open(path) as tar:
        keys = {name.partition(".")[0] for name in tar.getnames()}
    return {
        "filename": path.name,
        "split": path.name.partition("-")[0],
        "samples": len(keys),
        "size_bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
