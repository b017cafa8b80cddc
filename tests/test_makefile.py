"""The Makefile passes its variables to the programs unchanged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

ODD = "/tmp/x y's"

RECORDER = f"""#!{sys.executable}
import json, os, sys
print(json.dumps([*sys.argv[1:], os.environ.get("FUZZ_EXAMPLES")]))
"""


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment whose programs print their arguments, and that make considers complete."""
    folder = tmp_path / "venv"
    (folder / "bin").mkdir(parents=True)
    for name in ("python", "datacomp-energon"):
        (folder / "bin" / name).write_text(RECORDER)
        (folder / "bin" / name).chmod(0o755)
    (folder / ".ready").touch()
    return folder


@pytest.mark.parametrize(
    ("target", "variable", "argument"),
    [
        ("quickstart", "ROOT", ODD),
        ("report", "ROOT", ODD),
        ("browse", "ROOT", f"{ODD}/energon"),
        ("screenshots", "ROOT", ODD),
        ("slurm-pool", "CLUSTER", ODD),
        ("soak", "MINUTES", ODD),
        ("soak", "SEED", ODD),
        ("automations", "NOTIFY", ODD),
        ("fuzz", "FUZZ_EXAMPLES", ODD),
    ],
)
def test_value_with_space_and_quote_is_one_argument(venv: Path, target: str, variable: str, argument: str) -> None:
    command = ["make", "--silent", f"VENV={venv}", target, f"{variable}={ODD}"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert argument in json.loads(made.stdout)
