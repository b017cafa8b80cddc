"""The documents are correct: commands, links, messages."""

import re
import shlex
import subprocess

import pytest

from benchmarks.many_shards import ManyShardsCommandLine
from benchmarks.memory import MemoryCommandLine
from benchmarks.plan import PlanCommandLine
from benchmarks.scale import ScaleCommandLine
from benchmarks.viewer import ViewerBenchmarkCommandLine
from cli.command_line import read_arguments
from cli.program import read_parameters
from cli.settings_reference import reference
from flows.check import check_dataset
from flows.checkpoint import import_checkpoint
from flows.prepare import prepare_datacomp
from flows.training import train_model
from tasks.contracts.cluster_profile import load_profile
from tasks.metadata.slices import load_slice
from tests import documents
from tests.conftest import ROOT


@pytest.mark.parametrize("command", [c for c in documents.commands() if c.startswith("make ")])
def test_make_targets_of_the_documents_exist(command):
    done = subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [c for c in documents.commands() if "prepare --root /path/to" in c])
def test_commands_for_the_real_slice_are_understood(command):
    name, arguments = documents.flow_and_arguments(command)
    parameters = read_parameters(prepare_datacomp, arguments)
    assert name == "prepare"
    assert parameters["dataset_slice"] == "datacomp-1b-tutorial"


@pytest.mark.parametrize("command", [c for c in documents.commands() if " /data/datacomp-1b" in c])
def test_commands_for_gpu_jobs_are_understood(command):
    flows = {"checkpoint": import_checkpoint, "training": train_model, "check": check_dataset}
    name, arguments = documents.flow_and_arguments(command)
    parameters = read_parameters(flows[name], arguments)
    assert str(parameters.get("root") or parameters["dataset_dir"]).startswith("/data/datacomp-1b")


@pytest.mark.parametrize("command", [c for c in documents.commands() if "-m benchmarks." in c])
def test_commands_of_benchmarks_are_understood(command):
    models = {
        "many_shards": ManyShardsCommandLine,
        "memory": MemoryCommandLine,
        "plan": PlanCommandLine,
        "scale": ScaleCommandLine,
        "viewer": ViewerBenchmarkCommandLine,
    }
    _, _, module, *arguments = shlex.split(command)
    assert read_arguments(models[module.removeprefix("benchmarks.")], arguments)


def test_every_command_of_the_documents_is_run_by_some_test():
    known = ("make ", ".venv/bin/prefect ", ".venv/bin/datacomp-energon deploy ", "export PREFECT_API_URL=")
    left = [
        command
        for command in documents.commands()
        if not command.startswith(known)
        and "quickstart-data" not in command
        and "prepare --root /path/to" not in command
        and " /data/datacomp-1b" not in command
        and "-m benchmarks." not in command
    ]
    assert left == []


@pytest.mark.parametrize(("document", "target"), documents.links())
def test_links_lead_somewhere(document, target):
    assert ((ROOT / document).parent / target).exists()


@pytest.mark.parametrize(("document", "target", "anchor"), documents.anchors())
def test_links_to_headings_lead_to_one(document, target, anchor):
    path = ((ROOT / document).parent / target).resolve()
    assert anchor in documents.headings(str(path.relative_to(ROOT)))


@pytest.mark.parametrize("symptom", documents.symptoms())
def test_messages_in_the_runbook_are_those_of_the_program(symptom):
    sources = [
        p.read_text(encoding="utf-8") for folder in ("cli", "flows", "tasks") for p in (ROOT / folder).rglob("*.py")
    ]
    text = re.sub(r'"\s*\n\s*f?"', "", "\n".join(sources))
    longest = max((part.strip(" :`") for part in symptom.split("…")), key=len)
    assert longest in text


def test_settings_reference_is_current():
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == reference(), "run `make settings`"


def test_examples_of_a_slice_and_a_cluster_profile_can_be_used(tmp_path):
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    examples = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    paths = [tmp_path / f"{number}.yaml" for number in range(len(examples))]
    for path, example in zip(paths, examples, strict=True):
        path.write_text(example, encoding="utf-8")
    assert load_slice(str(paths[0])).expected_shards(10_000) == 54
    assert load_profile(str(paths[1])).name == "our-scheduler"
