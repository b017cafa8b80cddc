"""A run as a user sees it in the Prefect UI."""

import base64
import re

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter

from demo.hub import busy
from flows.audit import audit_download
from flows.metadata import download_metadata
from tests.conftest import credentials
from tests.flows.test_own_server import tunnel
from tests.golden import copy_shards
from tests.tasks.metadata import conftest as metadata
from tests.tasks.metadata.samples import make_slice

pins, serve = metadata.pins, metadata.serve


@pytest.fixture
def ui(prefect_server):
    """The UI's address."""
    return prefect_server.removesuffix("/api")


@pytest.fixture
def new_page(new_page):
    """Return a function that opens a page in a browser that already has the server's password."""

    def open_page():
        page = new_page()
        password = base64.b64encode(":".join(credentials()).encode()).decode()
        page.add_init_script(f"localStorage.setItem('prefect-password', '{password}')")
        return page

    return open_page


def ours(troubles):
    """Return the errors, except for pictures that Prefect's UI requests and its server does not have."""
    return [trouble for trouble in troubles if not trouble.endswith(("/favicon.ico)", "undefined.svg)"))]


def the_run(tmp_path):
    """Return the flow run whose name contains this test's folder."""
    with get_client(sync_client=True) as client:
        named = FlowRunFilter.model_validate({"name": {"like_": str(tmp_path)}})
        (run,) = client.read_flow_runs(flow_run_filter=named)
    return run


def test_a_run_shows_its_shards_its_end_in_words_and_artifacts(ui, new_page, screenshots, troubles, tmp_path):
    audit_download(copy_shards("golden", tmp_path / "raw" / "shards"))
    page = new_page()
    page.goto(f"{ui}/runs/flow-run/{the_run(tmp_path).id}")
    page.get_by_text("audit-00000002").first.wait_for()
    page.get_by_text("3 shards, 141 of 192 URLs succeeded, 0 findings").first.wait_for()
    page.screenshot(path=screenshots / "prefect-run.png")
    page.goto(f"{ui}/artifacts")
    for artifact in ("failure-reasons", "raw-shards", "audit-progress"):
        page.get_by_text(re.compile(artifact)).first.wait_for()
    page.screenshot(path=screenshots / "prefect-artifacts.png")
    assert ours(troubles) == []


def test_a_task_that_was_retried_shows_how_often_it_ran(
    ui,
    new_page,
    screenshots,
    troubles,
    tmp_path,
    serve,
    pins,
):
    slice_file = tmp_path / "slice.yaml"
    slice_file.write_text(yaml.safe_dump(make_slice(*pins).model_dump(mode="json", exclude_unset=True)))
    with serve({"a.parquet": [busy(503, "3600")]}):  # longer than the time limit: the task run fails and is retried
        download_metadata(tmp_path / "root", str(slice_file))
    with get_client(sync_client=True) as client:
        named = TaskRunFilter.model_validate({"name": {"any_": ["metadata-a.parquet"]}})
        (retried,) = client.read_task_runs(
            flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": [the_run(tmp_path).id]}}),
            task_run_filter=named,
        )
    page = new_page()
    page.goto(f"{ui}/runs/task-run/{retried.id}")
    page.get_by_text("metadata-a.parquet").first.wait_for()
    page.get_by_text("Run Count").wait_for()
    page.screenshot(path=screenshots / "prefect-retry.png")
    assert re.search(r"Run Count\s+2\b", page.locator("body").inner_text())
    assert retried.state.is_completed()
    assert ours(troubles) == []


def test_the_link_opens_the_ui_in_one_step_through_a_tunnel_and_only_once(own_api, chromium):
    port = int(own_api.ui.rpartition(":")[2])
    with tunnel(port) as other:
        link = own_api.link.replace(f":{port}/", f":{other}/")
        page = chromium.new_context().new_page()
        page.set_default_timeout(180_000)
        answers = []
        page.on("response", lambda answer: answers.append(answer.status))
        sockets = []
        page.on("websocket", lambda opened: sockets.append(opened.url))
        page.goto(link)
        page.wait_for_url("**/deployments")
        page.get_by_text("Work Pools", exact=True).first.wait_for()
        page.goto(f"http://127.0.0.1:{other}/flows")
        page.get_by_text("Work Pools", exact=True).first.wait_for()
        assert 401 not in answers and 403 not in answers
        assert all(f":{other}/" in url for url in sockets)
        second = chromium.new_context().new_page()
        second.goto(link)
        second.get_by_text("was used already").wait_for()
        assert second.evaluate("localStorage.getItem('prefect-password')") is None
