"""What a person sees of a run in the Prefect UI."""

import re

import pytest
from prefect.client.orchestration import get_client

from flows.audit import audit_download
from tests.golden import copy_shards


@pytest.fixture
def run(prefect_server, tmp_path):
    """The id of an audit's flow run, and the UI's address."""
    audit_download(copy_shards("golden", tmp_path / "raw" / "shards"))
    with get_client(sync_client=True) as client:
        newest = sorted(client.read_flow_runs(limit=200), key=lambda run: run.expected_start_time)
        (audit,) = [run for run in newest if str(tmp_path) in run.name]
    return audit.id, prefect_server.removesuffix("/api")


def test_a_run_shows_its_shards_and_artifacts(run, new_page, screenshots):
    run_id, ui = run
    page = new_page()
    page.goto(f"{ui}/runs/flow-run/{run_id}")
    page.get_by_text("audit-00000002").first.wait_for()
    page.screenshot(path=screenshots / "prefect-run.png")
    page.goto(f"{ui}/artifacts")
    page.get_by_text(re.compile("failure-reasons")).first.wait_for()
    page.screenshot(path=screenshots / "prefect-artifacts.png")
