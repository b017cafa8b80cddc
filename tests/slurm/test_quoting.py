"""Our quoting of #SBATCH lines against the parser of a real sbatch."""

from pathlib import Path

import pytest

from deployments.slurm.configuration import job_of
from deployments.slurm.script import render
from tasks.contracts.job_variables import JobVariables
from tests.slurm.cluster import SlurmCluster

TEXTS = [
    "plain",
    "it's",
    'a "b" c',
    "# no comment",
    "a # b",
    "back\\slash",
    "$(touch pwned) `x` ${HOME}",
    "é ☃",
    "a=b,c",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_comment_arrives_as_it_was_given(slurm: SlurmCluster, tmp_path: Path, text: str) -> None:
    job = submit(slurm, tmp_path / "run" / "1", JobVariables(comment=text))
    shown = slurm.command("squeue", "-h", "-t", "all", "-j", job, "-O", "Comment:400")
    assert shown.strip() == f"prefect:run:1 {text}"
    slurm.command("scancel", job)


@pytest.mark.parametrize("name", ["plain", "with space", "50%j done", "it's #1", 'a "b"'])
def test_a_log_lies_where_it_should(slurm: SlurmCluster, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name / "1"
    job = submit(slurm, folder, JobVariables())
    slurm.command("scontrol", "release", job)
    for _ in range(100):
        if (folder / "receipt.json").exists():
            break
        slurm.command("sleep", "0.1")
    assert (folder / "receipt.json").exists() and "hello" in (folder / "job.log").read_text()


def submit(slurm: SlurmCluster, folder: Path, variables: JobVariables) -> str:
    """Submit a held job whose files lie in ``folder``; return its id."""
    folder.mkdir(parents=True)
    (folder / "environment").write_text("")
    (folder / "job.sh").write_text(render(variables, job_of("x", folder, "echo hello", variables)))
    return slurm.command("sbatch", "--parsable", "--hold", str(folder / "job.sh")).strip()
