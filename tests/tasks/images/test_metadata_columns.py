"""Metadata columns of types that Arrow casts without loss: checked, and downloaded by both downloaders."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.images.checkout import check_out
from tasks.images.environment import DownloaderEnvironment
from tasks.io.metadata_columns import plain_metadata
from tasks.metadata.look import look_at
from tests.tasks.images.conftest import OFFICIAL, SETTINGS, Slice
from tests.tasks.images.test_raw_samples import row_number, samples
from tests.tasks.images.upstream import Upstream

pytestmark = pytest.mark.xdist_group("faults")

LISTS = pa.list_(pa.list_(pa.float64()))
FIXED = pa.list_(pa.list_(pa.float64(), 4))
TYPES = {
    "views": (pa.string_view(), LISTS),
    "dictionaries": (pa.dictionary(pa.int32(), pa.string()), LISTS),
    "fixed-size lists": (pa.string(), FIXED),
    "all": (pa.dictionary(pa.int8(), pa.large_string()), FIXED),
}


def as_text(column: pa.ChunkedArray, text: pa.DataType) -> pa.ChunkedArray:
    """Cast strings; for a dictionary, use Arrow's own encoding."""
    return (column.dictionary_encode() if pa.types.is_dictionary(text) else column).cast(text)


def rewrite(folder: Path, text: pa.DataType, boxes: pa.DataType) -> None:
    """Rewrite every metadata file with these types, in row groups of seven: each has its own dictionary."""
    for path in folder.glob("*.parquet"):
        table = pq.read_table(path)
        typed = {name: as_text(table[name].cast(pa.string()), text) for name in ("uid", "url", "text")}
        typed["face_bboxes"] = pa.array(table["face_bboxes"].to_pylist(), boxes)
        pq.write_table(pa.table(typed), path, row_group_size=7)


@pytest.mark.parametrize("which", TYPES)
def test_look_finds_the_same_whatever_the_types(slice_: Slice, which: str) -> None:
    paths = sorted(slice_.root.metadata.glob("*.parquet"))
    before = look_at(paths)
    rewrite(slice_.root.metadata, *TYPES[which])
    assert look_at(paths) == before


@pytest.mark.parametrize("which", TYPES)
@pytest.mark.parametrize("name", ["official", "current"])
def test_both_downloaders_take_them(
    slice_: Slice, upstream: Upstream, request: pytest.FixtureRequest, name: str, which: str
) -> None:
    rewrite(slice_.root.metadata, *TYPES[which])
    fixture, settings = {"official": ("official", OFFICIAL), "current": ("downloader", SETTINGS)}[name]
    environment: DownloaderEnvironment = request.getfixturevalue(fixture)
    if name == "official":
        settings = settings.model_copy(update={"upstream_url": upstream.url, "upstream_commit": upstream.commit})
        check_out(slice_.root.upstream, upstream.url, upstream.commit)
    assert slice_.download(environment, settings).totals.successes == 32
    for meta, _, _ in samples(slice_):
        row = slice_.rows[row_number(meta)]
        assert (meta["uid"], meta["caption"], meta["face_bboxes"]) == (row["uid"], row["text"], row["face_bboxes"])


def test_plain_metadata_is_read_where_it_lies(slice_: Slice, tmp_path: Path) -> None:
    names = list(slice_.source.rows)
    rewrite(slice_.root.metadata, pa.string(), LISTS)
    assert plain_metadata(slice_.root.metadata, names, tmp_path / "copies") == slice_.root.metadata
    assert not (tmp_path / "copies").exists()
