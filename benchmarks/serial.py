"""A plain serial conversion and audit, written for the comparison: tarfile, full decode, one process."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

PROMPT = "Describe this image."


def groups(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield key and members of every sample of a raw tar."""
    key = ""
    members: dict[str, bytes] = {}
    with tarfile.open(path) as tar:
        for info in tar:
            name, _, extension = info.name.rpartition(".")
            if name != key and members:
                yield key, members
                members = {}
            key = name
            file = tar.extractfile(info)
            members[extension] = file.read() if file else b""
    if members:
        yield key, members


def convert(source: Path, output: Path, fraction: float = 0.01, samples_per_tar: int = 10_000) -> int:
    """Convert a folder; return the number of samples."""
    output.mkdir(parents=True)
    seen: set[str] = set()
    open_tars: dict[str, tuple[tarfile.TarFile, Path]] = {}
    written = {"train": 0, "val": 0}
    for path in sorted(source.glob("*.tar")):
        for key, members in groups(path):
            record, caption = json.loads(members["json"]), members["txt"].decode()
            if record["key"] != key or record["uid"] in seen or not caption.strip():
                continue
            with Image.open(io.BytesIO(members["jpg"])) as image:
                image.load()
            seen.add(record["uid"])
            first = int.from_bytes(hashlib.sha256(record["uid"].encode()).digest()[:8], "big")
            split = "val" if first / 2**64 < fraction else "train"
            if written[split] % samples_per_tar == 0:
                _close(open_tars.pop(split, None))
                target = output / f"{split}-shard-{written[split] // samples_per_tar:06d}.tar"
                open_tars[split] = (tarfile.open(target, "w", format=tarfile.GNU_FORMAT), target)  # noqa: SIM115
            _add(open_tars[split][0], f"{record['uid']}.image.jpg", members["jpg"])
            _add(open_tars[split][0], f"{record['uid']}.conversation.json", _conversation(record, caption))
            written[split] += 1
    for opened in open_tars.values():
        _close(opened)
    return sum(written.values())


def audit(source: Path) -> int:
    """Count the complete samples of a folder from the tar headers, and compare with the stats.

    Raises RuntimeError if they differ.
    """
    total = 0
    for path in sorted(source.glob("*.tar")):
        stats = json.loads(path.with_name(f"{path.stem}_stats.json").read_text(encoding="utf-8"))
        members: dict[str, set[str]] = {}
        with tarfile.open(path) as tar:
            for info in tar:
                key, _, extension = info.name.rpartition(".")
                members.setdefault(key, set()).add(extension)
        whole = sum(1 for extensions in members.values() if extensions == {"jpg", "json", "txt"})
        if whole != stats["successes"]:
            raise RuntimeError(f"{path}: {whole} samples, stats say {stats['successes']}")
        total += whole
    return total


def _conversation(record: dict, caption: str) -> bytes:
    source = {
        "dataset": "mlfoundations/datacomp_1b",
        "revision": "086ebeee20d4cc3b3e7c05ae703fcf278ae3a759",
        "uid": record["uid"],
        "url": record["url"],
        "source_key": record["key"],
        "download_status": record["status"],
        "original_download_sha256": record["sha256"],
        "face_bbox_count": len(record["face_bboxes"]),
    }
    source |= {name: record[name] for name in ("width", "height", "original_width", "original_height")}
    user = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": PROMPT}]}
    assistant = {"role": "assistant", "content": [{"type": "text", "text": caption}]}
    value = {"conversation": [user, assistant], "source": source}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    tar.addfile(info, io.BytesIO(data))


def _close(opened: tuple[tarfile.TarFile, Path] | None) -> None:
    """Close the tar and hash the file, as a careful writer would."""
    if opened:
        opened[0].close()
        with opened[1].open("rb") as file:
            hashlib.file_digest(file, "sha256")
