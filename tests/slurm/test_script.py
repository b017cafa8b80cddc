"""Batch scripts: golden files, quoting, and rejected values. Rewrite the golden files with UPDATE_GOLDEN=1."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from deployments.slurm.configuration import SlurmJobConfiguration, SlurmVariables, job_of
from deployments.slurm.environment import write_environment
from deployments.slurm.script import Job, directives, quote, render, safe_name
from tasks.contracts.errors import SettingsError
from tasks.contracts.job_variables import GENERATED_DIRECTIVES, JobVariables, notice_seconds
from tasks.slurm.job_folder import ENVIRONMENT_FILE

GOLDEN = Path(__file__).parent / "golden"
JOB = Job(
    "nap-17", "prefect:1234:1", Path("/shared/jobs/1234/1"), ("prefect", "flow-run", "execute"), "/shared/venv/bin"
)

CASES = {
    "plain": JobVariables(),
    "gpu": JobVariables(
        partition="gpu", account="vision", qos="long", time_limit="2-00:00:00", gpus_per_node=8, gpu_type="h100",
        cpus_per_task=96, mem="0", exclusive=True, requeue=True, constraint="h100&ib", modules=["cuda/12.4", "gcc"],
        setup=["ulimit -n 65536"], mail_user="ops@example.org", mail_type="END,FAIL",
    ),
    "odd": JobVariables(
        comment="it's #1 \"x\" \\", job_name="$(reboot) `x` é", working_dir="/data/50% done", signal_lead_seconds=0,
        extra_directives=["--licenses=scratch:1", "#SITE --tier=gold"], drop_directives=["open-mode", "--nodes"],
    ),
    "pyxis": JobVariables(
        container_image="registry.local/energon:1 x", container_mounts=["/shared:/shared", "/a b:/b"]
    ),
    "apptainer": JobVariables(
        container_image="/images/e.sif", container_runtime="apptainer", container_mounts=["/d:/d:ro"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_golden_scripts(name: str) -> None:
    script = render(CASES[name], JOB)
    golden = GOLDEN / f"{name}.sh"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(script)
    assert script == golden.read_text()


@pytest.mark.parametrize("name", sorted(CASES))
def test_scripts_are_sorted_and_valid_shell(name: str, tmp_path: Path) -> None:
    script = render(CASES[name], JOB)
    head = [line for line in script.splitlines() if line.startswith("#SBATCH --") and "licenses" not in line]
    assert head == sorted(head)
    (tmp_path / "job.sh").write_text(script)
    subprocess.run(["bash", "-n", str(tmp_path / "job.sh")], check=True)


def test_every_generated_directive_can_be_dropped() -> None:
    full = CASES["gpu"].model_copy(update={"drop_directives": sorted(GENERATED_DIRECTIVES)})
    assert directives(full, JOB) == {}
    assert set(directives(CASES["gpu"], JOB)) <= GENERATED_DIRECTIVES


@pytest.mark.parametrize(
    "bad",
    [
        {"partition": "cpu\n#SBATCH --uid=0"},
        {"partition": "cpu; reboot"},
        {"account": "--wrap=reboot"},
        {"time_limit": "soon"},
        {"mem": "lots"},
        {"comment": "a\nb"},
        {"setup": ["true\nreboot"]},
        {"extra_directives": ["reboot"]},
        {"extra_directives": ["--x\nreboot"]},
        {"modules": ["cuda; reboot"]},
        {"log_dir": "relative"},
        {"drop_directives": ["memory"]},
        {"env": {"A B": "c"}},
        {"mem": "1G", "mem_per_cpu": "1G"},
        {"gpu_type": "h100"},
        {"container_mounts": ["/a:/a"]},
        {"partitions": "cpu"},
        {"max_reschedules": -1},
    ],
)
def test_what_does_not_belong_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        JobVariables.model_validate(bad)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--array=1-3", "--array: the flow would run once for each task"),
        ("--arr 1-3", "--array"),
        ("-a1-3", "-a, --array"),
        ("-Ha1-3", "-a, --array"),
        ("--licenses=x --array=1-3", "--array"),
        ("#SBATCH  --array=1-3", "--array"),
        ("#SBATCH hetjob", "hetjob: the job would become several"),
        ("#PBS -t 1-3", "option of another system"),
        ("--clusters=other", "--clusters: the job would go to a cluster that this worker does not watch"),
        ("-M other", "-M, --clusters"),
        ("--cluster-constraint=big", "does not watch"),
        ("--requeue", "--requeue: .* set the variable requeue"),
        ("--wait", "--wait: sbatch would not return"),
        ("--test-only", "nothing would be submitted"),
        ("--uid=7", "--uid: the job would belong to somebody else"),
        ("--job-name=mine", "set the variable job_name"),
        ("--comment='open", "close the quote"),
    ],
)
def test_directives_that_multiply_or_move_the_job_are_refused_with_the_reason(line: str, words: str) -> None:
    with pytest.raises(ValidationError, match=f"line 2 is refused: .*{words}"):
        JobVariables(extra_directives=["--licenses=a:1", line])


@pytest.mark.parametrize(
    "line",
    [
        "--licenses=scratch:1",
        "--wait-all-nodes=1",
        "-H",
        "-A account",
        "--comment='-a 1'",
        "# --array=1-3",
        "#SITE --array",
        "#SBATCH -t 5  # --array=1",
        "-x awM",
        "--begin=now+1hour",
    ],
)
def test_other_directives_are_taken_as_they_are(line: str) -> None:
    assert JobVariables(extra_directives=[line]).extra_directives == [line]


def test_the_command_is_never_run_by_a_shell() -> None:
    job = job_of("x", Path("/f/1"), "prefect flow-run execute; $(reboot) '&& x'", JobVariables())
    line = [line for line in render(JobVariables(), job).splitlines() if line.startswith("prefect")]
    assert line == ["prefect flow-run 'execute;' '$(reboot)' '&& x' &"]


def test_names_and_quotes() -> None:
    assert safe_name("a b/$(c)\n日本") == "a_b_c"
    assert safe_name("日本") == "flow-run"
    assert quote("/plain/path") == "/plain/path"
    assert quote('a "b" #c') == '"a \\"b\\" \\#c"'


def test_placeholders_in_values_stay_what_they_are() -> None:
    assert "echo @COMMAND@" in render(JobVariables(setup=["echo @COMMAND@"]), JOB)


HOSTILE = ["$(touch pwned)", "'; touch pwned; '", "a\nb", "`touch pwned`", '"', "\\", "é☃", ""]


@pytest.mark.parametrize("value", HOSTILE)
def test_the_environment_file_is_private_and_literal(tmp_path: Path, value: str) -> None:
    write_environment(tmp_path, {"SECRET": value, "Z": "1"})
    file = tmp_path / ENVIRONMENT_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    done = subprocess.run(
        ["bash", "-c", f'. {file}; printf %s "$SECRET"'], cwd=tmp_path, capture_output=True, check=True
    )
    assert done.stdout.decode() == value
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("env", [{"A-B": "c"}, {"A": "\0"}, {"A;reboot": "c"}])
def test_an_environment_that_cannot_be_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        write_environment(tmp_path, env)


def test_a_private_ca_goes_with_the_job(tmp_path: Path) -> None:
    authority = tmp_path / "ca" / "private.pem"
    authority.parent.mkdir()
    authority.write_text("certificate")
    write_environment(tmp_path, {"PREFECT_API_SSL_CERT_FILE": str(authority)})
    assert (tmp_path / "ca.pem").read_text() == "certificate"
    assert str(tmp_path / "ca.pem") in (tmp_path / ENVIRONMENT_FILE).read_text()


@pytest.mark.parametrize("model", [JobVariables, SlurmVariables])
@pytest.mark.parametrize(
    "given",
    [{"env": {"HF_TOKEN=hf_secret": "x"}}, {"env": {"HF_TOKEN": ["hf_secret"]}}, {"extra_directives": ["hf_secret"]}],
)
def test_what_may_be_a_secret_is_in_no_error_of_the_job_variables(model, given):
    with pytest.raises(ValidationError) as refused:
        model.model_validate(given)
    assert "hf_secret" not in str(refused.value)


def test_what_may_be_a_secret_is_in_no_error_of_the_worker(tmp_path):
    with pytest.raises(ValidationError) as refused:
        SlurmJobConfiguration.model_validate({"slurm": {"setup": ["export HF_TOKEN=hf_secret\n"]}})
    assert "hf_secret" not in str(refused.value)
    with pytest.raises(SettingsError, match="HF_TOKEN=… cannot be the name") as named:
        write_environment(tmp_path, {"HF_TOKEN=hf_secret": "x"})
    assert "hf_secret" not in str(named.value)


@pytest.mark.parametrize(
    ("limit", "default", "lead", "notice"),
    [
        ("2", None, 120, 30),
        ("1:00:00", None, 120, 120),
        ("0", None, 120, 120),
        (None, 120, 120, 30),
        (None, None, 120, 120),
        ("2", None, 0, 0),
        ("2", 3600, 120, 30),
    ],
)
def test_notice_is_at_most_a_quarter_of_the_time_limit(
    limit: str | None, default: int | None, lead: int, notice: int
) -> None:
    assert notice_seconds(JobVariables(time_limit=limit, signal_lead_seconds=lead), default) == notice


def test_script_of_a_short_job_asks_for_a_short_notice() -> None:
    assert directives(JobVariables(time_limit="2"), JOB)["signal"] == "B:USR1@30"
