"""Mistakes on command lines: each error names the option and the fix."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.folders import emptied
from cli import main
from cli.browse import BrowseCommandLine, serve
from cli.command_line import read_arguments, say
from cli.program import read_parameters
from cli.server import prefect_api
from cli.ui import UiCommandLine
from flows.convert import convert_dataset
from flows.images import download_images
from tasks.contracts.errors import PipelineError, SettingsError
from tasks.contracts.layout import absolute
from tests.conftest import ROOT
from tests.golden import copy_shards

CONVERT = ["--source-dir", "x", "--output-dir", "y"]


def refused(capsys, flow, *arguments):
    """Return the error output for an invalid command line."""
    with pytest.raises(SystemExit) as ended:
        read_parameters(flow, list(arguments))
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_misspelled_option_is_named_with_the_likely_one_even_if_another_is_missing_for_it(capsys):
    told = refused(capsys, convert_dataset, "--source-dirr", "x")
    assert told.startswith("error: --source-dirr is no option (did you mean --source-dir?); `")
    assert told.endswith("--help` tells what may be given\n") and told.count("\n") == 1
    told = refused(capsys, convert_dataset, *CONVERT, "--convert.maximum-sample=3")
    assert "--convert.maximum-sample is no option (did you mean --convert.maximum-samples?)" in told


def test_what_looks_like_an_option_and_is_a_value_is_taken():
    given = read_parameters(
        convert_dataset, [*CONVERT, "--convert.prompt=--source?", "--convert.source-dataset", "- a"]
    )
    assert (given["convert"].prompt, given["convert"].source_dataset) == ("--source?", "- a")


def test_an_empty_path_is_not_the_folder_one_is_in(capsys):
    assert "--output-dir: the path is empty" in refused(
        capsys, convert_dataset, "--source-dir", "x", "--output-dir", ""
    )
    told = refused(capsys, download_images, "--root", "x", "--download.environment", "")
    assert "--download.environment: the path is empty" in told
    assert "bytes that are no UTF-8" in refused(capsys, download_images, "--root", "/data/\udcff")
    assert read_parameters(convert_dataset, ["--source-dir", ".", "--output-dir", "y"])["source_dir"] == Path()


def test_a_terminal_obeys_nothing_in_a_message(capsys):
    say("root: /data/\x1b[2J\u202etar\n/data/two is no folder\x07")
    assert capsys.readouterr().err == "error: root: /data/\\x1b[2J\\u202etar\n/data/two is no folder\\x07\n"


def test_every_program_tells_its_name_as_it_is_started():
    done = subprocess.run([sys.executable, "-m", "cli", "status", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.startswith("usage: datacomp-energon status [-h]")


def test_a_port_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit):
        read_arguments(UiCommandLine, ["--port", "web"])
    assert capsys.readouterr().err.startswith("error: --port: Input should be a valid integer")


def test_a_port_that_is_taken_is_told_at_once(tmp_path, state_home):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(PipelineError, match=rf"port {port} cannot be used .*another --port"),
            prefect_api(port=port),
        ):
            pass
        shards = copy_shards("golden", tmp_path / "shards")
        with pytest.raises(PipelineError, match=rf"127\.0\.0\.1:{port} cannot be listened on .*another --port"):
            serve(BrowseCommandLine(dataset=shards, port=port))


def test_a_relative_path_is_refused_in_a_run_whose_folder_goes_with_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert absolute(Path("data")) == tmp_path / "data"
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "0f4e5aeb-5eb1-4c13-bfc2-4e08ff6cde0e")
    with pytest.raises(SettingsError, match=r"'data' is relative.*give an absolute path"):
        absolute(Path("data"))
    assert absolute(tmp_path) == tmp_path


def test_a_state_folder_that_cannot_be_one_is_told(tmp_path):
    (tmp_path / "file").touch()
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    done = subprocess.run(
        [sys.executable, "-m", "flows.check", "--dataset-dir", "x"],
        env=environment | {"XDG_STATE_HOME": str(tmp_path / "file")},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}/file/datacomp-energon/server-1: a file lies where a folder")


def test_a_benchmark_empties_no_folder_that_is_not_its_own(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(SystemExit):
        emptied(tmp_path / "mine")
    assert str(tmp_path / "mine") in capsys.readouterr().err
    assert (tmp_path / "mine" / "thesis.txt").exists()
    emptied(tmp_path / "new")
    (tmp_path / "new" / "work").touch()
    emptied(tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == [".benchmark"]


def test_help_of_the_console_command_lists_every_subcommand_and_imports_nothing_heavy():
    code = """
import sys
import cli.main
sys.argv = ["datacomp-energon", "--help"]
try:
    cli.main.main()
except SystemExit as ended:
    assert ended.code == 0
print({"prefect", "pydantic", "dask", "pyarrow", "torch"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(f"\n  {name} " in done.stdout for name in main.COMMANDS)
    assert done.stdout.endswith("\nset()\n")


def test_every_flow_has_a_subcommand_named_as_its_module():
    modules = {path.stem for path in (ROOT / "flows").glob("*.py") if "@flow(" in path.read_text(encoding="utf-8")}
    assert set(main.FLOWS) == modules
    assert all(command.target.startswith(f"flows.{name}:") for name, command in main.FLOWS.items())


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("flows.status", "status"),
        ("flows.ui", "ui"),
        ("flows.browse", "browse"),
        ("deployments.slurm", "pool"),
        ("deployments.automations.load", "automations"),
    ],
)
def test_old_program_names_the_new_command(module, command):
    done = subprocess.run([sys.executable, "-m", module], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"`datacomp-energon {command}`" in done.stderr and len(done.stderr.splitlines()) == 1


def test_unknown_subcommand_is_named():
    done = subprocess.run([sys.executable, "-m", "cli", "statsu"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: unknown command statsu\n")


@pytest.mark.parametrize("package", ["flows.audit", "cli.server"])
def test_prefect_sends_no_telemetry_from_a_program(package):
    code = f"import {package}, os; print(os.environ['DO_NOT_TRACK'])"
    environment = {name: value for name, value in os.environ.items() if name != "DO_NOT_TRACK"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout == "1\n", done.stderr
