"""``datacomp-energon render`` and ``pool``, the profile's defaults, and prefect.yaml."""

from pathlib import Path

import pytest
import yaml

from cli.pool import render_script
from deployments.slurm.pid import JobPid
from deployments.slurm.pool import job_template
from tasks.contracts.cluster_profile import load_profile
from tasks.contracts.job_variables import JobVariables

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """A site's own profile."""
    file = tmp_path / "site.yaml"
    file.write_text(
        'name: site\nslurm: {partition: gpu, account: vision, time_limit: "1:30:00", setup: ["ulimit -n 9"]}\n'
    )
    return str(file)


def test_render_shows_the_profile_and_what_is_given(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    render_script(["--cluster", profile, "--gpus-per-node", "8", "--account", "audio"])
    script = capsys.readouterr().out
    for line in ("--partition=gpu", "--account=audio", "--time=1:30:00", "--gpus-per-node=8"):
        assert f"#SBATCH {line}\n" in script
    assert "\nulimit -n 9\n" in script


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mem", "lots"], "mem:"),
        (["--mem", "1G", "--mem-per-cpu", "1G"], "exclude each other"),
        (["--cluster", "nowhere"], "cluster 'nowhere' is unknown"),
        (["--log-dir", "here"], "must be an absolute path"),
        (["--partitoin", "gpu"], "--partitoin is no option (did you mean --partition?); `"),
    ],
)
def test_render_refuses_in_words(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        render_script(arguments)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert words in told and "Traceback" not in told


def test_the_pools_defaults_are_the_profiles(profile: str) -> None:
    properties = job_template(load_profile(profile).slurm)["variables"]["properties"]
    assert properties["account"]["default"] == "vision" and properties["time_limit"]["default"] == "1:30:00"
    assert properties["max_reschedules"]["default"] == 3 and properties["qos"]["default"] is None


def test_every_variable_has_a_title_and_a_description() -> None:
    for name, field in JobVariables.model_fields.items():
        assert field.title and field.description, name


def test_sizes_in_prefect_yaml_are_valid_and_every_flow_is_on_both_pools() -> None:
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    flows = {suffix: {d["entrypoint"] for d in deployments if d["name"] == suffix} for suffix in ("local", "slurm")}
    assert flows["local"] == flows["slurm"] != set()
    for deployment in deployments:
        JobVariables.model_validate(deployment["work_pool"].get("job_variables", {}))


@pytest.mark.parametrize("text", ["", "7", "lab:", "lab:x", ":7", "a b:7", "lab:7:8"])
def test_a_pid_that_is_none_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match="expected 'cluster:job id'"):
        JobPid.parse(text)
    assert JobPid.parse(str(JobPid("lab", 7))) == JobPid("lab", 7)
