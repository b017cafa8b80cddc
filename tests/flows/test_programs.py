"""Every flow as a program: help, bad arguments, exit statuses, the last line on stdout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flows

MODULES = ["quickstart", "prepare", "metadata", "images", "audit", "convert", "check", "report", "pin"]
PROGRAMS = [[f"flows.{name}"] for name in MODULES] + [["cli", name] for name in ("convert", "status")]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that must end before it needs a Prefect server."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"COLUMNS": "120"} | environment,
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=" ".join)
def test_help_lists_every_parameter(program):
    done = run(*program, "--help")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "--root" in done.stdout or "-dir" in done.stdout
    assert "--json" in done.stdout
    assert "status" in program or "--quiet" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["flows.convert", "--source-dir", "x"], "--output-dir"),
        (
            ["flows.convert", "--source-dir", "x", "--output-dir", "y", "--convert.validation-fraction", "1"],
            "less than 1",
        ),
        (["flows.convert", "--source-dir", "x", "--output-dir", "y", "--convert.prompt", " "], "prompt is blank"),
        (
            [
                "flows.convert",
                "--source-dir=x",
                "--output-dir=y",
                "--convert.maximum-samples=5",
                "--convert.minimum-train-samples=6",
            ],
            "maximum_samples (5) is below minimum_train_samples (6)",
        ),
        (["flows.audit", "--shards-dir", "x", "--gate.expected-shards", "many"], "--gate.expected-shards"),
        (["flows.prepare", "--root", "x", "--dataset-name", "../up"], "--dataset-name"),
        (["flows.prepare", "--root", "x", "--no-such-option", "1"], "no-such-option"),
    ],
)
def test_bad_arguments_exit_with_2_and_one_line_a_field(arguments, named):
    done = run(*arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_importing_the_flows_imports_nothing_slow_that_a_help_text_does_not_need():
    names = sorted(path.stem for path in Path(flows.__path__[0]).glob("[a-z]*.py"))
    code = f"import sys, {', '.join(f'flows.{name}' for name in names)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert "prefect" in imported
    assert imported & {"torch", "megatron", "webdataset", "dask", "distributed", "prefect_dask"} == set()


def test_environment_variables_are_no_arguments():
    done = run("flows.convert", "--output-dir", "y", SOURCE_DIR="x", ROOT="x", CONVERT="{}")
    assert done.returncode == 2
    assert "--source-dir" in done.stderr


@pytest.mark.parametrize(
    ("module", "arguments", "status", "named"),
    [
        ("flows.metadata", ["--root", "r", "--dataset-slice", "nosuch"], 2, "datacomp-1b-tutorial"),
        ("flows.audit", ["--shards-dir", "empty/raw/shards"], 1, "is not a folder"),
        ("flows.audit", ["--shards-dir", "elsewhere"], 2, "audit_dir"),
        ("flows.convert", ["--source-dir", "gone", "--output-dir", "out"], 1, "is not a folder"),
        ("flows.convert", ["--source-dir", "gone", "--output-dir", "out", "--cluster", "mars"], 2, "local"),
        ("flows.check", ["--dataset-dir", "nothing"], 1, "manifest.json"),
        ("flows.report", ["--root", "r"], 1, "plan.json"),
        ("flows.prepare", ["--root", "r", "--dataset-name", "raw"], 2, "dataset_name"),
    ],
)
def test_trouble_is_a_sentence_and_a_non_zero_exit(program, module, arguments, status, named):
    done = program(module, *arguments)
    assert done.status == status, done.stderr
    assert named in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
