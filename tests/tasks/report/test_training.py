"""The report of a training, from the logs of its jobs."""

import re
from pathlib import Path

import pytest

from tasks.contracts.errors import DatasetError
from tasks.megatron.history import keep_log
from tasks.report.training import write_training_report
from tests.tasks.megatron.jobs import training_settings
from tests.tasks.megatron.test_logs import SAMPLE


@pytest.fixture
def log(tmp_path: Path) -> Path:
    keep_log(tmp_path / "log.json", training_settings(tmp_path), [SAMPLE])
    return tmp_path / "log.json"


def test_page_shows_curves_throughput_and_checkpoints(log, tmp_path):
    page = write_training_report(log, tmp_path / "reports" / "training" / "qwen" / "index.html")
    html = page.read_text(encoding="utf-8")
    for title in ("Loss and validation loss by step", "Samples a second by step", "Model TFLOP/s a GPU by step"):
        assert html.count(f'aria-label="{title}"') == 1
    for told in ("30 of 1,000", "3.4588", "3.4110", "20.5", "Steps skipped: 1; with a NaN loss: 2"):
        assert told in html, told
    assert re.search(r'<th scope="row">30</th><td>3.4588</td><td>3.4110</td>', html)
    assert not re.findall(r'(?:src|href)="(?!data:|#)', html) and "default-src 'none'" in html
    assert write_training_report(log, tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_training_that_logged_nothing_yet_has_a_page_that_says_so(tmp_path):
    (tmp_path / "job.out").write_text("NCCL fell over\n")
    keep_log(tmp_path / "log.json", training_settings(tmp_path), [tmp_path / "job.out"])
    html = write_training_report(tmp_path / "log.json", tmp_path / "page.html").read_text(encoding="utf-8")
    assert "logged no step" in html and "None was logged." in html
    with pytest.raises(DatasetError, match="no job of this training has logged anything yet"):
        write_training_report(tmp_path / "gone.json", tmp_path / "page.html")
