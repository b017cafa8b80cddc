"""The command lines of import-checkpoint and train-model."""

import pytest
from pydantic import ValidationError

from cli.program import read_parameters
from flows.checkpoint import import_checkpoint
from flows.training import train_model
from tasks.megatron.settings import TrainingSettings

WHERE = ["--account", "vision", "--partition", "gpu", "--container-image", "nvcr.io#nvidia/nemo:26.02"]


def line(prefix: str, *words: str) -> list[str]:
    """A command line with all that must be given."""
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
