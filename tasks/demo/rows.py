"""The rows of the demo's metadata: which URLs it lists, with which captions and face boxes."""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tasks.demo.answers import SHAPES
from tasks.demo.captions import odd_captions
from tasks.demo.drawing import Box
from tasks.demo.formats import FORMATS
from tasks.demo.pictures import kind_of, picture

SEED = 20260724
FILE_ROWS = (520, 500, 490, 490)
"""Rows of each Parquet file: 2,000 together, and not all of them full shards."""
TWICE_PER_FILE = 3
"""Rows of each file that stand in the next file too, under the same uid."""
NOBODY = "http://127.0.0.1:1"
"""Nobody listens on port 1, so a connection is refused at once."""

FAULT_ROWS: dict[str, int] = {
    "404": 190,
    "403": 20,
    "410": 20,
    "500": 30,
    "503": 30,
    "html": 60,
    "empty": 10,
    "slow": 4,
    "cut": 20,
    "cut-unannounced": 20,
    "reset": 20,
}
"""URLs that answer, but not with a whole picture."""
FORMAT_ROWS: dict[str, int] = {
    "progressive": 30,
    "grey": 25,
    "cmyk": 15,
    "rotated": 15,
    "png": 40,
    "palette": 15,
    "png16": 10,
    "webp": 40,
    "gif": 20,
}
"""Pictures that are no plain JPEG."""
SHAPE_ROWS = 3
"""Pictures of each odd shape."""
OTHER_ROWS: dict[str, int] = {
    "moved": 20,
    "no-ai": 20,
    "my pictures": 8,
    "bilder-für-alle": 8,
    "not-available": 25,
    "refused": 30,
}
"""Redirects, opt-outs, URLs with a space or an umlaut, one notice under many URLs, hosts that are down."""


@dataclass(frozen=True)
class Row:
    """One row of the metadata, its URL still without the base that is known when the web is up."""

    uid: str
    path: str
    text: str | None
    size: tuple[int, int]
    faces: tuple[Box, ...]

    def url(self, base_url: str) -> str:
        """The full URL, for a web at ``base_url``."""
        return self.path if "://" in self.path else base_url + self.path


def demo_rows() -> list[list[Row]]:
    """The rows of each file, faults mixed over all of them: the same on every machine."""
    dice = random.Random(SEED)
    rows = _all_rows()
    dice.shuffle(rows)
    files = [[rows.pop() for _ in range(count - TWICE_PER_FILE)] for count in FILE_ROWS]
    repeated = [_good_rows(file)[:TWICE_PER_FILE] for file in files]
    for number, file in enumerate(files):
        file.extend(repeated[number - 1])
        dice.shuffle(file)
    return files


def _all_rows() -> list[Row]:
    special = [_row(number, path) for number, path in enumerate(_special_paths())]
    missing = sum(FILE_ROWS) - TWICE_PER_FILE * len(FILE_ROWS) - len(special)
    numbers = range(len(special), len(special) + missing)
    plain = [_row(number, f"/jpeg/{kind_of(number)}/{number}.jpg") for number in numbers]
    odd = odd_captions()
    return special + [replace(row, text=text) for row, text in zip(plain, odd, strict=False)] + plain[len(odd) :]


def _special_paths() -> Iterator[str]:
    """The path of every row that is not a plain picture; a row's number is its place in this order."""
    makers = {
        **{f"/fault/{fault}/{{number}}.jpg": count for fault, count in FAULT_ROWS.items()},
        **{f"/{name}/{{kind}}/{{number}}.{FORMATS[name].extension}": count for name, count in FORMAT_ROWS.items()},
        **{f"/shape/{shape}/{{number}}.jpg": SHAPE_ROWS for shape in SHAPES},
        **{_other_path(name): count for name, count in OTHER_ROWS.items()},
    }
    templates = [template for template, count in makers.items() for _ in range(count)]
    for number, template in enumerate(templates):
        yield template.format(kind=kind_of(number), number=number)


def _other_path(name: str) -> str:
    if name == "refused":
        return NOBODY + "/jpeg/{kind}/{number}.jpg"
    return f"/{name}/{{number}}.jpg" if name == "not-available" else f"/{name}/{{kind}}/{{number}}.jpg"


def _row(number: int, path: str) -> Row:
    shown = picture(kind_of(number), number)
    uid = hashlib.sha256(f"datacomp-energon demo {number}".encode()).hexdigest()[:32]
    return Row(uid, path, shown.caption, shown.size, shown.faces)


def _good_rows(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.path.startswith("/jpeg/") and row.text and row.text.strip()]
