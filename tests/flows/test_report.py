"""report-dataset and pin-slice as programs."""

import json

from demo.hub import serve_hub
from tasks.metadata.slices import load_slice
from tests.tasks.metadata.samples import NAMES, REPO, REVISION, write
from tests.tasks.report.dataset import prepared_root


def test_report_is_written_where_the_result_says(program, tmp_path):
    data = prepared_root(tmp_path / "root")
    done = program("flows.report", "--root", data.path, "--report.contact-sheet", 4)
    assert done.status == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["samples"] == 56
    assert result["path"] == str(data.report("energon"))
    assert data.report("energon").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_slice_is_pinned_from_a_hub(program, tmp_path):
    pins = [write(tmp_path / "served" / name) for name in NAMES[:2]]
    with serve_hub(tmp_path / "served", REPO, REVISION) as hub:
        files = [part for name in NAMES[:2] for part in ("--files", name)]
        done = program(
            "flows.pin",
            *("--root", "root", "--slice-file", "mine.yaml", "--name", "mine", "--repo-id", REPO),
            *("--revision", REVISION, *files),
            HF_ENDPOINT=hub.url,
            NO_PROXY="127.0.0.1",
        )
    assert done.status == 0, done.stderr
    assert load_slice(str(tmp_path / "mine.yaml")).files == tuple(pins)
    assert json.loads(done.stdout.splitlines()[-1])["rows"] == 80
