"""The command lines of import-checkpoint and train-model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from pydantic import ValidationError

from cli.program import read_parameters
from flows.checkpoint import import_checkpoint
from flows.pipeline import prepare_and_train
from flows.prepare import prepare_datacomp
from flows.training import train_model
from tasks.megatron.settings import TrainingSettings
from tests.conftest import ROOT

WHERE = ["--account", "vision", "--partition", "gpu", "--container-image", "nvcr.io#nvidia/nemo:26.02"]


def line(prefix: str, *words: str) -> list[str]:
    """Return a command line with all required options."""
    place = [word.replace("--", f"--{prefix}.", 1) if word.startswith("--") else word for word in WHERE]
    return ["--root", "/data/root", f"--{prefix}.bridge-dir", "/src/bridge", *place, *words]


def test_what_must_be_given_is_little():
    parameters = read_parameters(import_checkpoint, line("checkpoint"))
    assert parameters["launch"] is False and parameters["checkpoint"].tp == 2
    parameters = read_parameters(train_model, line("training", "--launch", "true"))
    assert parameters["launch"] is True and parameters["training"].global_batch_size == 512


def test_lists_and_nulls_are_given_as_words():
    words = ["--training.env", "HF_TOKEN", "--training.env", "WANDB_API_KEY", "--training.srun-args=--mpi=pmix"]
    words += [
        "--training.mounts",
        "/cache,/scratch:/data",
        "--training.time-limit",
        "null",
        "--training.eval-iters",
        "8",
    ]
    training = read_parameters(train_model, line("training", *words))["training"]
    assert (training.env, training.srun_args) == (("HF_TOKEN", "WANDB_API_KEY"), ("--mpi=pmix",))
    assert (training.mounts, training.time_limit, training.eval_iters) == (("/cache", "/scratch:/data"), None, 8)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--training.env", "HF_TOKEN=hf_secret"], "--training.env.0: HF_TOKEN=… is not the name of an environment"),
        (["--training.env", "hf_secret!"], "--training.env.0: what was given (not shown: it may be a secret) is not"),
        (["--training.overrides", "logger.key=hf_secret!"], "--training.overrides.0: logger.key=… is not an override"),
        (["--training.srun-args=--comment=hf_secret!"], "--training.srun-args.0: --comment=… is not an option"),
        (["--training.srun-args=--export=ALL,HF_TOKEN=hf_secret"], "not given here: name variables in env"),
        (["--training.mode", "sft"], "is a recipe for pretrain"),
        (["--training.name", "a;reboot"], "--training.name: 'a;reboot' is not a plain word"),
    ],
)
def test_refused_settings_are_told_by_option(words, told, capsys):
    with pytest.raises(SystemExit) as ended:
        read_parameters(train_model, line("training", *words))
    err = capsys.readouterr().err
    assert ended.value.code == 2 and told in err and "hf_secret" not in err


@pytest.mark.parametrize("field", ["env", "overrides", "srun_args"])
def test_what_may_be_a_secret_is_in_no_error_of_the_settings(field):
    given = {"bridge_dir": "/src", "account": "a", "partition": "p", "container_image": "/i.sqsh"}
    with pytest.raises(ValidationError) as refused:
        TrainingSettings.model_validate({**given, field: ["HF_TOKEN=hf_secret!"]})
    assert "HF_TOKEN=…" in str(refused.value) and "hf_secret" not in str(refused.value)


@pytest.fixture
def variables(monkeypatch):
    """Set the tutorial's environment variables."""
    given = {
        "DATACOMP_ROOT": "/data/elsewhere",
        "SLURM_ACCOUNT": "vision",
        "SLURM_PARTITION": "gpu",
        "CONTAINER_IMAGE": "nvcr.io#nvidia/nemo:26.02",
        "BRIDGE_ROOT": "/src/tutorial",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return given


@pytest.mark.parametrize(("flow", "group"), [(import_checkpoint, "checkpoint"), (train_model, "training")])
def test_variables_of_the_tutorial_stand_in_for_options_not_given(flow, group, variables):
    parameters = read_parameters(flow, [f"--{group}.partition", "other", f"--{group}.bridge-dir=/src/bridge"])
    job = parameters[group]
    assert parameters["root"] == Path(variables["DATACOMP_ROOT"])
    assert (job.account, job.container_image) == ("vision", variables["CONTAINER_IMAGE"])
    assert (job.partition, job.bridge_dir) == ("other", Path("/src/bridge"))


def test_empty_variable_counts_as_not_set_and_an_invalid_one_is_named(variables, monkeypatch, capsys):
    monkeypatch.setenv("SLURM_ACCOUNT", "")
    with pytest.raises(SystemExit) as ended:
        read_parameters(import_checkpoint, [])
    assert ended.value.code == 2 and "--checkpoint.account" in capsys.readouterr().err
    monkeypatch.setenv("SLURM_ACCOUNT", "a;reboot")
    with pytest.raises(SystemExit) as ended:
        read_parameters(import_checkpoint, [])
    told = capsys.readouterr().err
    assert told.startswith("error: --checkpoint.account (from SLURM_ACCOUNT): 'a;reboot' is not a plain word")


def test_help_names_variables_and_their_values(variables, monkeypatch, capsys):
    monkeypatch.setenv("BRIDGE_ROOT", "/src/100%(prog)s\x1b[31m")
    monkeypatch.delenv("SLURM_PARTITION")
    with pytest.raises(SystemExit) as ended:
        read_parameters(train_model, ["--help"])
    told = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0
    assert [line.split(maxsplit=2) for line in told[-5:]] == [
        ["--root", "DATACOMP_ROOT", "now /data/elsewhere"],
        ["--training.account", "SLURM_ACCOUNT", "now vision"],
        ["--training.partition", "SLURM_PARTITION", "not set"],
        ["--training.container-image", "CONTAINER_IMAGE", "now nvcr.io#nvidia/nemo:26.02"],
        ["--training.bridge-dir", "BRIDGE_ROOT", r"now /src/100%(prog)s\x1b[31m"],
    ]


def test_no_other_program_form_or_reference_depends_on_the_environment(variables, capsys):
    for flow in (prepare_datacomp, prepare_and_train):
        with pytest.raises(SystemExit):
            read_parameters(flow, [])
        assert "--root" in capsys.readouterr().err
    made = "from cli.settings_reference import reference; from flows.training import train_model; "
    made += "from flows.checkpoint import import_checkpoint; print(reference()); "
    made += "print(train_model.parameters.model_dump_json(), import_checkpoint.parameters.model_dump_json())"
    bare = {name: value for name, value in os.environ.items() if name not in variables}
    with_variables, without = (
        subprocess.run([sys.executable, "-c", made], env=env, capture_output=True, text=True, check=True, cwd=ROOT)
        for env in (dict(os.environ), bare)
    )
    assert with_variables.stdout == without.stdout and "SLURM_ACCOUNT" not in without.stdout


def test_run_records_what_the_variables_gave(program, variables, tmp_path):
    bridge = tmp_path / "no-bridge"
    done = program(
        "flows.checkpoint", "--checkpoint.bridge-dir", bridge, **{**variables, "DATACOMP_ROOT": str(tmp_path)}
    )
    assert done.status in (1, 2) and str(bridge) in done.stderr
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_filter=FlowFilter(name=FlowFilterName(any_=["import-checkpoint"])))
    (recorded,) = [run.parameters for run in runs if run.parameters["root"] == str(tmp_path)]
    job = recorded["checkpoint"]
    assert (job["account"], job["partition"]) == ("vision", "gpu")
    assert (job["container_image"], job["bridge_dir"]) == (variables["CONTAINER_IMAGE"], str(bridge))
