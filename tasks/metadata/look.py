"""A check of all rows before the download: unsafe addresses, face boxes that would not be blurred, captions."""

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from tasks.contracts.errors import MetadataError
from tasks.contracts.settings import Finding
from tasks.downloader_startup.addresses import kind_of_host
from tasks.io.metadata_columns import USED_COLUMNS, read_plain
from tasks.io.receipts import Receipt, read_receipt

STAGE_VERSION = 2
LOOK_NAME = "metadata-look.json"
BATCH_ROWS = 100_000
HOST = r"^(?i:https?)://(?:[^/?#]*@)?(?P<host>\[[^\]]*\]|[^/?#:\\]*)"

MEANINGS: dict[Finding, str] = {
    "url_not_http": "URLs that are not http or https: urllib would open files and other services",
    "host_loopback": "URLs of this very machine (a literal loopback address or localhost)",
    "host_private": "URLs of a literal private, link-local or reserved address",
    "boxes_null": "rows whose face_bboxes is null: nothing would be blurred, nobody knows whether there are faces",
    "box_never_blurred": "face boxes that are empty, inverted or outside of the picture (x0 < x1 and y0 < y1, as "
    "fractions): nothing would be blurred",
    "box_broken": "face boxes that are not four finite numbers: their pictures will fail",
    "box_over_the_edge": "face boxes that reach over the edge of the picture: blurred up to the edge",
    "text_not_utf8": "rows with text that is not UTF-8: the whole shard would be lost",
    "caption_missing": "captions that are null",
    "caption_blank": "captions that are blank",
}
REFUSED: frozenset[Finding] = frozenset(
    ("url_not_http", "host_loopback", "host_private", "boxes_null", "box_never_blurred", "text_not_utf8")
)
"""Findings that stop a download by default: they reach into this network, leave faces unblurred or lose a shard."""


class MetadataLook(BaseModel):
    """Count and first location of each kind of finding. Boxes are counted individually, everything else by row."""

    model_config = ConfigDict(frozen=True)

    rows: int
    counts: dict[Finding, int]
    first: dict[Finding, str]

    def in_words(self) -> list[str]:
        """Return one sentence for each kind that was found."""
        return [
            f"{kind}: {count:,} {MEANINGS[kind]} (first: {self.first[kind]})" for kind, count in self.counts.items()
        ]


def look_once(folder: Path, files: Collection[str], metadata_sha256: str) -> MetadataLook:
    """Return the findings recorded in ``metadata-look.json``, else scan the files and record them.

    Raises MetadataError as ``look_at`` does.
    """
    path = folder / LOOK_NAME
    work = Receipt(stage="metadata-look", stage_version=STAGE_VERSION, inputs={"metadata_sha256": metadata_sha256})
    earlier = read_receipt(path)
    if earlier and earlier.is_for(work):
        return MetadataLook.model_validate(earlier.counts)
    found = look_at([folder / name for name in sorted(files)])
    work.model_copy(update={"counts": found.model_dump()}).write(path)
    return found


def look_at(paths: list[Path]) -> MetadataLook:
    """Scan every row of these Parquet files. Raises MetadataError for a file that cannot be read."""
    rows, counts, first = 0, Counter[Finding](), dict[Finding, str]()
    for path in paths:
        row = 0
        for batch in _read_batches(path):
            for kind, bad in _findings(batch):
                number = int(np.count_nonzero(bad))
                if number:
                    counts[kind] += number
                    first.setdefault(kind, f"{path.name}, {_describe_first(batch, kind, row, bad)}")
            row += batch.num_rows
        rows += row
    kinds = [kind for kind in get_args(Finding) if counts[kind]]
    return MetadataLook(rows=rows, counts={kind: counts[kind] for kind in kinds}, first=first)


def refuse_findings(look: MetadataLook, accepted: Collection[Finding]) -> None:
    """Raise MetadataError for findings that stop a download and are not accepted."""
    refused = MetadataLook(
        rows=look.rows,
        counts={kind: count for kind, count in look.counts.items() if kind in REFUSED and kind not in accepted},
        first=look.first,
    )
    if refused.counts:
        found = "\n  - ".join(["the metadata is not fit to be downloaded:", *refused.in_words()])
        raise MetadataError(
            f"{found}\nUse other metadata, or accept what was found: name the word before the colon in "
            "download.accepted_findings."
        )


def _read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(path) as file:
            if missing := [name for name in USED_COLUMNS if name not in file.schema_arrow.names]:
                raise MetadataError(f"{path} cannot be read: it has no column {', '.join(missing)}")
            yield from read_plain(file, BATCH_ROWS)
    # ValueError: a damaged footer may hold names that are not UTF-8.
    except (pa.ArrowException, OSError, ValueError) as error:
        raise MetadataError(f"{path} cannot be read: {error}") from None


def _findings(batch: pa.RecordBatch) -> Iterator[tuple[Finding, np.ndarray]]:
    """Yield each kind of finding with a mask of the bad rows, or of the bad boxes for box kinds."""
    clean = {name: _null_invalid_utf8(batch.column(name)) for name in ("uid", "url", "text")}
    broken = np.logical_or.reduce([_mask(pc.is_null(clean[n])) & _mask(batch.column(n).is_valid()) for n in clean])
    yield "text_not_utf8", broken
    yield from _url_findings(clean["url"])
    text = clean["text"]
    yield "caption_missing", _mask(batch.column("text").is_null())
    yield "caption_blank", _mask(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(text)), 0))
    yield "boxes_null", _mask(batch.column("face_bboxes").is_null())
    yield from _box_findings(batch.column("face_bboxes"))


def _url_findings(urls: pa.Array) -> Iterator[tuple[Finding, np.ndarray]]:
    hosts = pc.struct_field(pc.extract_regex(pc.utf8_trim_whitespace(urls), HOST), "host")
    # Null means that the URL does not match, or was null itself.
    yield "url_not_http", _mask(pc.is_null(hosts))
    codes = hosts.dictionary_encode()
    kinds = [kind_of_host(host) for host in codes.dictionary.to_pylist()]
    index = codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for kind in ("host_loopback", "host_private"):
        yield kind, np.isin(index, [number for number, found in enumerate(kinds) if found == kind])


def _box_findings(column: pa.Array) -> Iterator[tuple[Finding, np.ndarray]]:
    boxes = column.flatten()
    four = _mask(pc.equal(pc.list_value_length(boxes), 4))
    numbers = boxes.filter(pa.array(four)).flatten().to_numpy(zero_copy_only=False).astype(float).reshape(-1, 4)
    box = np.full((len(boxes), 4), np.nan)
    box[four] = numbers
    x0, y0, x1, y1 = box.T
    broken = ~np.isfinite(box).all(axis=1)
    unblurred = (x0 >= x1) | (y0 >= y1) | (x1 <= 0) | (y1 <= 0) | (x0 >= 1) | (y0 >= 1)
    over = ((box < 0) | (box > 1)).any(axis=1)
    yield "box_broken", broken
    yield "box_never_blurred", unblurred & ~broken
    yield "box_over_the_edge", over & ~unblurred & ~broken


def _null_invalid_utf8(column: pa.Array) -> pa.Array:
    """Return the column with null for invalid UTF-8. Only a column that fails validation is decoded row by row."""
    try:
        column.validate(full=True)
        return column
    except pa.ArrowInvalid:
        return pa.array([_decode_or_null(value) for value in column.cast(pa.large_binary()).to_pylist()], column.type)


def _decode_or_null(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _mask(array: pa.Array) -> np.ndarray:
    return array.fill_null(False).to_numpy(zero_copy_only=False)


def _describe_first(batch: pa.RecordBatch, kind: Finding, row: int, bad: np.ndarray) -> str:
    """Return row and value of the first bad value."""
    at = int(np.argmax(bad))
    if kind.startswith("box_"):
        boxes = batch.column("face_bboxes").flatten()
        parents = pc.list_parent_indices(batch.column("face_bboxes"))
        return f"row {row + parents[at].as_py()}: {boxes[at].as_py()}"
    if kind.startswith(("url_", "host_")):
        return f"row {row + at}: {str(batch.column('url')[at].as_py())[:100]!r}"
    return f"row {row + at}"
