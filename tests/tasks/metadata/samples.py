"""Small metadata files with DataComp's columns, and the slices that pin them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.io.files import sha256_of
from tasks.metadata.fetch import FetchJob
from tasks.metadata.hub import Source
from tasks.metadata.slices import Slice, SliceFile

REPO = "someone/some_metadata"
REVISION = "0123456789abcdef0123456789abcdef01234567"
SOURCE = Source(REPO, REVISION)
NAMES = ("a.parquet", "b.parquet", "c.parquet", "d.parquet")
TEXT = pa.string()
BOXES = pa.list_(pa.list_(pa.float64()))


def table(rows: int = 40, seed: str = "a", boxes: pa.DataType = BOXES, text: pa.DataType = TEXT) -> pa.Table:
    """Return rows with DataComp's columns; ``seed`` makes the content differ between files."""
    captions = [str(n) if text == pa.int64() else f"caption {seed} {n}" for n in range(rows)]
    faces = [[[0.1, 0.2, 0.3, 0.4]] if pa.types.is_nested(boxes.value_type) else [0.1, 0.2]] * rows
    return pa.table(
        {
            "uid": [f"{n:032x}" for n in range(rows)],
            "url": [f"http://127.0.0.1/{seed}/{n}.jpg" for n in range(rows)],
            "text": pa.array(captions).cast(text),
            "original_width": pa.array([640] * rows, pa.int64()),
            "face_bboxes": pa.array(faces).cast(boxes),
        }
    )


def write(path: Path, content: pa.Table | None = None) -> SliceFile:
    """Write a metadata file and return its pin."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(seed=path.stem) if content is None else content, path)
    return pin(path)


def pin(path: Path) -> SliceFile:
    """Return the pin of a Parquet file in its current state."""
    rows = pq.ParquetFile(path).metadata.num_rows
    return SliceFile(name=path.name, rows=rows, bytes=path.stat().st_size, sha256=sha256_of(path))


def make_slice(*pins: SliceFile) -> Slice:
    """Return a slice of these files."""
    return Slice(name="small", repo_id=REPO, revision=REVISION, files=pins)


def flip_byte(path: Path, offset: int = 60) -> None:
    """Change one byte and keep the size."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def job(tmp_path: Path, pin: SliceFile, source: Source = SOURCE) -> FetchJob:
    """Return the job that fetches a file into ``tmp_path / "metadata"``."""
    return FetchJob(folder=tmp_path / "metadata", source=source, pin=pin)


def files_in(folder: Path) -> set[str]:
    """Return the names of all files in the folder, without the fingerprint notes."""
    return {path.name for path in folder.iterdir()} - {".fingerprints"} if folder.exists() else set()
