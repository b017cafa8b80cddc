"""Loader for the automations in this folder's YAML files, which creates them on a Prefect server."""

from importlib.resources import files
from typing import Any
from uuid import UUID

import yaml
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound

from tasks.contracts.errors import SettingsError

BODY = """\
{{ flow.name }}: {{ flow_run.name }} is {{ flow_run.state.name }}. {{ flow_run.state.message }}
{{ (flow_run|ui_url) or "" }}
"""
"""Body of a notification: a Jinja template that the server renders when an automation fires."""


def automations(block: UUID | None) -> list[AutomationCore]:
    """Read the automations in this folder's YAML files. With a block, each sends a notification through it."""
    found = []
    declarations = (path for path in files(__package__).iterdir() if path.name.endswith(".yaml"))
    for path in sorted(declarations, key=lambda path: path.name):
        declared: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        if block is not None:
            message = {"type": "send-notification", "subject": declared["name"], "body": BODY}
            declared["actions"] = [{**message, "block_document_id": block}]
        found.append(AutomationCore.model_validate(declared))
    return found


def load(notify: str | None) -> list[str]:
    """Create or replace the automations on the configured server; return their names. Raises SettingsError."""
    with get_client(sync_client=True) as client:
        loaded = automations(_block(client, notify) if notify else None)
        for automation in loaded:
            for old in client.read_automations_by_name(automation.name):
                client.delete_automation(old.id)
            client.create_automation(automation)
    return [automation.name for automation in loaded]


def _block(client: SyncPrefectClient, notify: str) -> UUID:
    kind, _, name = notify.partition("/")
    try:
        return client.read_block_document_by_name(name, kind, include_secrets=False).id
    except ObjectNotFound:
        raise SettingsError(
            f"notify: the server has no block {notify}; `prefect block ls` lists what it has, and the UI makes new ones"
        ) from None


if __name__ == "__main__":
    from cli.main import name_replacement

    name_replacement("automations")
