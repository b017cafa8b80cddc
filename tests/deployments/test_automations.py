"""Automations on a real server fire and notify (tests/flows/test_ui.py loads one with Prefect's command)."""

import json
import queue
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prefect import flow, tags
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import get_client
from prefect.events.schemas.automations import AutomationCore
from prefect.states import Running

from deployments.automations.load import automations, load
from flows.check import check_dataset
from tasks.contracts.errors import SettingsError

NAMES = ["datacomp run completed", "datacomp run failed", "datacomp run stalled"]


@pytest.fixture
def site() -> Iterator[tuple[str, "queue.Queue[dict[str, str]]"]]:
    """A notification service on the loopback interface: its address and the notifications that it received."""
    told: queue.Queue[dict[str, str]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", told
    server.shutdown()
    thread.join()
    server.server_close()


def stall_after_ten_seconds(client) -> None:
    """Replace the stalled automation with one that waits only 10 s, and create a run that never reports again."""
    (stalled,) = client.read_automations_by_name("datacomp run stalled")
    impatient = AutomationCore.model_validate(stalled.model_dump(mode="json", exclude={"id"}))
    impatient.trigger.within = timedelta(seconds=10)
    client.delete_automation(stalled.id)
    client.create_automation(impatient)
    run = client.create_flow_run(flow(name="silent")(lambda: None), name="silent run", tags=["datacomp"])
    client.set_flow_run_state(run.id, Running())


def test_runs_that_fail_complete_or_stall_are_told_to_the_site(prefect_server, site, tmp_path):
    address, told = site
    block = CustomWebhookNotificationBlock(
        name="team", url=address, json_data={"about": "{{subject}}", "text": "{{body}}"}
    )
    block.save("team", overwrite=True)
    load(None)
    assert load("custom-webhook/team") == NAMES
    with get_client(sync_client=True) as client:
        assert sorted(found.name for found in client.read_automations()) == NAMES
        stall_after_ten_seconds(client)
        with tags("datacomp"):
            check_dataset(tmp_path, return_state=True)
            flow(name="well")(lambda: 1)()
        check_dataset(tmp_path, return_state=True)  # not one of our deployments: no notification
        messages = [told.get(timeout=120) for _ in NAMES]
        texts = {message["about"]: message["text"] for message in messages}
        for automation in client.read_automations():
            client.delete_automation(automation.id)
    assert texts.keys() == set(NAMES)
    assert "check-dataset: check" in texts["datacomp run failed"] and "manifest.json" in texts["datacomp run failed"]
    assert "silent run is Running" in texts["datacomp run stalled"]
    assert "/runs/flow-run/" in texts["datacomp run completed"]
    assert told.empty()


def test_without_a_block_they_only_make_an_event():
    assert [(one.name, [action.type for action in one.actions]) for one in automations(None)] == [
        (name, ["do-nothing"]) for name in NAMES
    ]


def test_an_unknown_block_is_named(prefect_server):
    with pytest.raises(SettingsError, match=r"no block slack-webhook/nobody; `prefect block ls`"):
        load("slack-webhook/nobody")
