"""Making a slice from the files of a hub."""

from pathlib import Path

import pytest

from demo.hub import busy
from tasks.contracts.errors import MetadataError, PipelineError, SettingsError
from tasks.metadata.fetch import fetch_file, fetch_jobs
from tasks.metadata.pin import check_request, pin_file, resolve_commit, write_slice
from tasks.metadata.slices import SliceFile, load_slice
from tests.tasks.metadata.conftest import ServeHub
from tests.tasks.metadata.samples import NAMES, REPO, REVISION, SOURCE, files_in, table, write


def test_pinned_slice_is_the_one_that_was_served(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    folder, path = tmp_path / "metadata", tmp_path / "slice.yaml"
    with serve() as hub:
        assert resolve_commit(SOURCE, NAMES[0]) == REVISION
        found = [pin_file(folder, SOURCE, name) for name in NAMES]
        assert found == pins
        write_slice(path, "mine", SOURCE, found)
        before = list(hub.requests)
        slice_ = load_slice(str(path))
        assert (slice_.name, slice_.repo_id, slice_.revision) == ("mine", REPO, REVISION)
        assert not any(fetch_file(job).fetched for job in fetch_jobs(folder, slice_))
        assert hub.requests == before
    assert files_in(folder) == set(NAMES)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"files": []}, "files: name at least one"),
        ({"files": ["../a.parquet"]}, r"files\.0\.name: '\.\./a\.parquet' is not a plain file name"),
        ({"files": ["a.csv"]}, r"files\.0\.name"),
        ({"files": ["a.parquet", "a.parquet"]}, "pinned more than once"),
        ({"name": "a $(b)"}, "name: "),
        ({"repo_id": "../.."}, "repo_id: "),
    ],
)
def test_what_cannot_become_a_slice_is_refused_before_anything_is_fetched(asked: dict, message: str):
    fitting = {"name": "mine", "repo_id": REPO, "files": ["a.parquet"]}
    check_request(**fitting)
    with pytest.raises(SettingsError, match=message):
        check_request(**{**fitting, **asked})


def test_a_file_that_is_there_is_pinned_without_fetching_it(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    with serve() as hub:
        first = pin_file(tmp_path / "metadata", SOURCE, NAMES[0])
        assert pin_file(tmp_path / "metadata", SOURCE, NAMES[0]) == first
        assert hub.requests.count(f"GET {NAMES[0]}") == 1


def test_a_busy_hub_is_waited_for(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    with serve({NAMES[0]: [busy(503, "0", method="GET")]}):
        assert pin_file(tmp_path / "metadata", SOURCE, NAMES[0]) == pins[0]


def test_another_slice_file_is_left_alone(tmp_path: Path, pins: list[SliceFile]):
    path = tmp_path / "slice.yaml"
    write_slice(path, "mine", SOURCE, pins)
    write_slice(path, "mine", SOURCE, pins)
    with pytest.raises(SettingsError, match="says something else"):
        write_slice(path, "mine", SOURCE, pins[:2])
    assert len(load_slice(str(path)).files) == 4


def test_files_that_cannot_be_pinned_are_refused_in_words(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    write(tmp_path / "served" / "other.parquet", table().drop_columns(["url"]))
    (tmp_path / "served" / "page.parquet").write_text("<html></html>")
    with serve():
        for name, message in (
            ("other.parquet", "0 columns named url"),
            ("page.parquet", "cannot be read as Parquet"),
            ("nosuch.parquet", "has no such file"),
        ):
            with pytest.raises(MetadataError, match=message):
                pin_file(tmp_path / "metadata", SOURCE, name)
        assert files_in(tmp_path / "metadata") == set()


def test_a_file_of_another_size_that_was_there_is_not_pinned(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    write(tmp_path / "metadata" / NAMES[0], table(rows=3))
    with serve(), pytest.raises(PipelineError, match="not what the hub announces"):
        pin_file(tmp_path / "metadata", SOURCE, NAMES[0])
