"""The metadata slice: DataComp's columns, the planned counts, the same bytes for the same base URL."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from demo.answers import FAULTS, SHAPES
from demo.captions import BLANK_CAPTIONS, ODD_CAPTIONS, REPEATS
from demo.formats import FORMATS
from demo.pictures import KINDS
from demo.rows import SPECIAL_ROWS, TWICE_PER_FILE, Row, demo_rows
from demo.slice import DemoSlice, slice_yaml, write_slice
from tasks.contracts.settings import ConvertSettings, DownloadSettings, GateSettings

BASE = "http://127.0.0.1:23456"

DATACOMP_COLUMNS = {
    "uid": "string",
    "url": "string",
    "text": "string",
    "original_width": "int64",
    "original_height": "int64",
    "clip_b32_similarity_score": "double",
    "clip_l14_similarity_score": "double",
    "face_bboxes": "list<element: list<element: double>>",
    "sha256": "string",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoSlice]:
    folder = tmp_path_factory.mktemp("hub")
    return folder, write_slice(folder, BASE)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [row for file in demo_rows() for row in file]


def test_four_files_with_two_thousand_rows_are_pinned_as_they_lie_on_disk(written: tuple[Path, DemoSlice]) -> None:
    folder, demo = written
    assert {file.name for file in demo.files} == {path.name for path in folder.iterdir()}
    assert [file.rows for file in demo.files] == [520, 500, 490, 490]
    for file in demo.files:
        assert len(Path(file.name).stem) == 32
        assert pq.ParquetFile(folder / file.name).metadata.num_rows == file.rows
    assert demo.is_complete_in(folder)


def test_columns_and_types_are_those_of_datacomp(written: tuple[Path, DemoSlice]) -> None:
    folder, demo = written
    for file in demo.files:
        schema = pq.ParquetFile(folder / file.name).schema_arrow
        assert {field.name: str(field.type) for field in schema} == DATACOMP_COLUMNS


def test_the_same_base_url_gives_the_same_bytes(written: tuple[Path, DemoSlice], tmp_path: Path) -> None:
    assert write_slice(tmp_path / "again", BASE) == written[1]
    other = write_slice(tmp_path / "other", "http://127.0.0.1:23457")
    assert other.revision != written[1].revision
    uids = [pq.read_table(folder, columns=["uid"]) for folder in (tmp_path / "again", tmp_path / "other")]
    assert uids[0] == uids[1]


@pytest.mark.parametrize("damage", ["missing", "one byte changed"])
def test_a_damaged_file_is_noticed(tmp_path: Path, damage: str) -> None:
    demo = write_slice(tmp_path, BASE)
    victim = tmp_path / demo.files[2].name
    content = bytearray(victim.read_bytes())
    content[100] ^= 1
    victim.unlink()
    if damage == "one byte changed":
        victim.write_bytes(content)
    assert not demo.is_complete_in(tmp_path)


def test_uids_are_valid_and_only_the_planned_rows_stand_twice(rows: list[Row]) -> None:
    counts = Counter(row.uid for row in rows)
    assert all(len(uid) == 32 and set(uid) <= set("0123456789abcdef") for uid in counts)
    assert sorted(counts.values(), reverse=True)[: 4 * TWICE_PER_FILE + 1] == [2] * 4 * TWICE_PER_FILE + [1]


def test_rows_that_stand_twice_lie_in_different_files() -> None:
    per_file = [{row.uid for row in file} for file in demo_rows()]
    assert [len(uids) for uids in per_file] == [len(file) for file in demo_rows()]


def test_urls_are_distinct_but_for_the_rows_that_stand_twice(rows: list[Row]) -> None:
    assert len({row.url(BASE) for row in rows}) == len({row.uid for row in rows}) == 2000 - 4 * TWICE_PER_FILE


def test_every_kind_of_url_comes_as_often_as_planned(rows: list[Row]) -> None:
    paths = [row.path for row in {row.uid: row for row in rows}.values()]
    for template, count in SPECIAL_ROWS.items():
        pattern = re.escape(template).replace(r"\{number\}", "[0-9]+").replace(r"\{kind\}", f"({'|'.join(KINDS)})")
        assert sum(re.fullmatch(pattern, path) is not None for path in paths) == count, template


@pytest.mark.parametrize(("folder", "names"), [("/fault/", FAULTS), ("/shape/", SHAPES), ("/", FORMATS)])
def test_everything_that_the_web_can_answer_is_listed(folder: str, names: Iterable[str], rows: list[Row]) -> None:
    assert all(any(row.path.startswith(f"{folder}{name}/") for row in rows) for name in names)


def test_three_quarters_of_the_rows_should_succeed(rows: list[Row]) -> None:
    failing = ("/fault/", "/no-ai/", "/my pictures/", "/bilder-für-alle/", "http://127.0.0.1:1/")
    successes = sum(not row.path.startswith(failing) for row in rows)
    assert 0.74 < successes / len(rows) < 0.77


def test_faults_are_mixed_over_every_file() -> None:
    for file in demo_rows():
        kinds = {row.path.split("/")[2] for row in file if row.path.startswith("/fault/")}
        assert {"404", "html", "cut", "cut-unannounced", "reset", "500", "503"} <= kinds


def test_every_odd_caption_is_there_and_belongs_to_a_picture_that_succeeds(rows: list[Row]) -> None:
    unique = {row.uid: row for row in rows}.values()
    texts = Counter(row.text for row in unique)
    for text in (None, *BLANK_CAPTIONS, *(text for group in ODD_CAPTIONS.values() for text in group)):
        assert texts[text] == REPEATS, text
    assert all(row.path.startswith("/jpeg/") for row in unique if row.text is None or not row.text.strip())
    assert max(len(row.text or "") for row in rows) == 5000


def test_ordinary_captions_come_from_the_pictures(rows: list[Row]) -> None:
    assert sum("flower" in (row.text or "") for row in rows) > 100
    assert len({row.text for row in rows}) > 1500


def test_every_face_box_in_the_metadata_is_valid(written: tuple[Path, DemoSlice]) -> None:
    boxes = [box for boxes in pq.read_table(written[0])["face_bboxes"].to_pylist() for box in boxes]
    assert len(boxes) > 150
    assert all(0 <= left < right <= 1 and 0 <= top < bottom <= 1 for left, top, right, bottom in boxes)


def test_every_url_stays_on_the_loopback_interface(rows: list[Row]) -> None:
    assert all(row.url(BASE).startswith("http://127.0.0.1:") for row in rows)


def test_the_slice_file_pins_the_files_and_its_settings_are_settings_of_the_pipeline(
    written: tuple[Path, DemoSlice],
) -> None:
    pins = slice_yaml(written[1])
    assert [file["sha256"] for file in pins["files"]] == [file.sha256 for file in written[1].files]
    assert len(pins["revision"]) == 40
    assert DownloadSettings(**pins["download"]).processes_count == 2
    assert GateSettings(**pins["gate"]).minimum_successes
    assert ConvertSettings(**pins["convert"]).validation_fraction == 0.05
