"""The rows of the demo's metadata: which URLs it lists, with which captions and face boxes."""

import hashlib
import random
from dataclasses import dataclass, replace

from demo.captions import odd_captions
from demo.drawing import Box
from demo.pictures import kind_of, picture

SEED = 20260724
FILE_ROWS = (520, 500, 490, 490)
"""Rows of each Parquet file: 2,000 together, and not all of them full shards."""
TWICE_PER_FILE = 3
"""Rows of each file that the next file repeats under the same uid."""
UNREACHABLE = "http://127.0.0.1:1"
"""An address without a server: connections to port 1 are refused at once."""

SPECIAL_ROWS: dict[str, int] = {
    "/fault/403/{number}.jpg": 20,
    "/fault/404/{number}.jpg": 190,
    "/fault/410/{number}.jpg": 20,
    "/fault/500/{number}.jpg": 30,
    "/fault/503/{number}.jpg": 30,
    "/fault/html/{number}.jpg": 60,
    "/fault/empty/{number}.jpg": 10,
    "/fault/slow/{number}.jpg": 4,
    "/fault/cut/{number}.jpg": 20,
    "/fault/cut-unannounced/{number}.jpg": 20,
    "/fault/reset/{number}.jpg": 20,
    UNREACHABLE + "/jpeg/{kind}/{number}.jpg": 30,
    "/my pictures/{kind}/{number}.jpg": 8,
    "/bilder-für-alle/{kind}/{number}.jpg": 8,
    "/no-ai/{kind}/{number}.jpg": 20,
    "/moved/{kind}/{number}.jpg": 20,
    "/not-available/{number}.jpg": 25,
    "/progressive/{kind}/{number}.jpg": 30,
    "/grey/{kind}/{number}.jpg": 25,
    "/cmyk/{kind}/{number}.jpg": 15,
    "/rotated/{kind}/{number}.jpg": 15,
    "/png/{kind}/{number}.png": 40,
    "/palette/{kind}/{number}.png": 15,
    "/png16/{kind}/{number}.png": 10,
    "/webp/{kind}/{number}.webp": 40,
    "/gif/{kind}/{number}.gif": 20,
    "/shape/1x1/{number}.jpg": 3,
    "/shape/16x16/{number}.jpg": 3,
    "/shape/2000x8/{number}.jpg": 3,
    "/shape/6x1200/{number}.jpg": 3,
}
"""Rows per kind of URL; all others are plain JPEGs. demo/answers.py has the response of each URL."""


@dataclass(frozen=True)
class Row:
    """One row of the metadata. ``path`` lacks the base URL, which is known once the web runs."""

    uid: str
    path: str
    text: str | None
    size: tuple[int, int]
    faces: tuple[Box, ...]

    def url(self, base_url: str) -> str:
        """Return the full URL for a web at ``base_url``."""
        return self.path if "://" in self.path else base_url + self.path


def demo_rows() -> list[list[Row]]:
    """Return the rows of each file, with faults spread over all files; identical on every machine."""
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
    templates = [template for template, count in SPECIAL_ROWS.items() for _ in range(count)]
    different = sum(FILE_ROWS) - TWICE_PER_FILE * len(FILE_ROWS)
    templates += ["/jpeg/{kind}/{number}.jpg"] * (different - len(templates))
    rows = [_row(number, template) for number, template in enumerate(templates)]
    # The last rows are plain pictures, so that no odd caption is lost with a failing picture.
    odd = odd_captions()
    return rows[: -len(odd)] + [replace(row, text=text) for row, text in zip(rows[-len(odd) :], odd, strict=True)]


def _row(number: int, template: str) -> Row:
    kind = kind_of(number)
    shown = picture(kind, number)
    uid = hashlib.sha256(f"datacomp-energon demo {number}".encode()).hexdigest()[:32]
    path = template.format(kind=kind, number=number)
    return Row(uid, path, shown.caption, shown.size, shown.faces)


def _good_rows(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.path.startswith("/jpeg/") and row.text and row.text.strip()]
