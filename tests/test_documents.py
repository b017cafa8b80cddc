"""What the documents say is so: commands, links, messages."""

import re
import shlex
import subprocess

import pytest

from flows.prepare import prepare_datacomp
from flows.program import read_parameters
from tests import documents
from tests.conftest import ROOT


@pytest.mark.parametrize("command", [c for c in documents.commands() if c.startswith("make ")])
def test_make_targets_of_the_documents_exist(command):
    done = subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [c for c in documents.commands() if "flows.prepare --root /path/to" in c])
def test_commands_for_the_real_slice_are_understood(command):
    parameters = read_parameters(prepare_datacomp, shlex.split(command)[3:])
    assert parameters["dataset_slice"] == "datacomp-1b-tutorial"


def test_every_command_of_the_documents_is_run_by_some_test():
    known = ("make ", ".venv/bin/prefect ", "export PREFECT_API_URL=")
    left = [
        command
        for command in documents.commands()
        if not command.startswith(known)
        and "quickstart-data" not in command
        and "flows.prepare --root /path" not in command
    ]
    assert left == []


@pytest.mark.parametrize(("document", "target"), documents.links())
def test_links_lead_somewhere(document, target):
    assert ((ROOT / document).parent / target).exists()


@pytest.mark.parametrize("symptom", documents.symptoms())
def test_messages_in_the_runbook_are_those_of_the_program(symptom):
    sources = [p.read_text(encoding="utf-8") for folder in ("flows", "tasks") for p in (ROOT / folder).rglob("*.py")]
    text = re.sub(r'"\s*\n\s*f?"', "", "\n".join(sources))
    longest = max((part.strip(" :`") for part in symptom.split("…")), key=len)
    assert longest in text
