"""The rendered commands, word for word."""

import itertools
import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tasks.io.files import digest
from tasks.megatron.describe import describe_submission, shell_command
from tasks.megatron.environment import allocation_environment, launcher_environment, with_cpu_share
from tasks.megatron.launch import identity_of
from tasks.megatron.render import Submission, render_import, render_training
from tests.tasks.megatron.bridge_fields import table_of
from tests.tasks.megatron.jobs import checkpoint_settings, training_settings

GOLDEN = Path(__file__).parent / "golden"
PLACE = Path("/shared")


def golden(name: str, text: str) -> None:
    """Compare with a golden file; UPDATE_GOLDEN=1 writes it instead."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def copied(submission: Submission) -> str:
    """Return the command alone, on one line."""
    return shell_command(submission).replace("\\\n", "").splitlines()[-1]


CASES = {
    "import": (render_import, checkpoint_settings(PLACE)),
    "import-allocation": (render_import, checkpoint_settings(PLACE, run_by="allocation", env=("HF_TOKEN",))),
    "import-local-model": (
        render_import,
        checkpoint_settings(PLACE, hf_model="/shared/root/hf", hf_revision=None, overwrite=True, tp=1, ep=8),
    ),
    "training": (render_training, training_settings(PLACE)),
    "training-allocation": (
        render_training,
        training_settings(PLACE, run_by="allocation", cpus_per_task=12, srun_args=("--mpi=pmix",)),
    ),
    "training-direct-lora": (
        render_training,
        training_settings(
            PLACE,
            processor_route="direct",
            mode="lora",
            recipe="qwen3_vl_8b_peft_config",
            step_func="vlm_step",
            hf_model="Qwen/Qwen3-VL-8B-Instruct",
            nodes=2,
            tp=2,
            pp=1,
            cp=1,
            ep=1,
            etp=1,
            micro_batch_size=2,
            eval_interval=100,
            eval_iters=8,
            time_limit="1-00:00:00",
            mounts=("/scratch:/data", "/cache"),
            dataset_dir="/scratch/energon",
            env=("HF_TOKEN", "WANDB_API_KEY"),
            srun_args=("--mpi=pmix", "--no-container-mount-home"),
            overrides=("logger.log_interval=10",),
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_commands_are_golden(name):
    render, settings = CASES[name]
    submission = render(PLACE / "root", settings)
    golden(f"{name}.sh", shell_command(submission) + "\n")
    assert shlex.split(copied(submission)) == list(submission.command)


@pytest.mark.parametrize("name", ["import", "training"])
def test_dry_run_is_the_same_command_with_one_more_flag(name):
    render, settings = CASES[name]
    submission = render(PLACE / "root", settings)
    flag = {"import": "--submission-dry-run", "training": "--dry-run"}[name]
    assert [word for word in submission.dry_run if word != flag] == list(submission.command)
    assert submission.dry_run.count(flag) == 1


def test_clusters_that_give_gpu_nodes_unasked_are_not_asked_for_gpus():
    for render, settings in ((render_import, checkpoint_settings), (render_training, training_settings)):
        assert "--no-gpu-resource-request" not in render(PLACE / "root", settings(PLACE)).command
        unasked = render(PLACE / "root", settings(PLACE, gpu_resource_request=False))
        assert "--no-gpu-resource-request" in unasked.command and "--no-gpu-resource-request" in unasked.dry_run


def test_conversion_that_newer_converters_refuse_is_noted():
    odd = render_import(PLACE / "root", checkpoint_settings(PLACE, tp=1, ep=4))
    assert "TP x PP x EP is not 8" in describe_submission(odd, PLACE / "root", launched=False)
    usual = render_import(PLACE / "root", checkpoint_settings(PLACE))
    assert "TP x PP x EP" not in describe_submission(usual, PLACE / "root", launched=False)


@pytest.mark.parametrize("name", ["import", "training", "training-direct-lora", "training-allocation"])
def test_a_person_reads_what_will_happen(name):
    render, settings = CASES[name]
    golden(f"{name}.md", describe_submission(render(PLACE / "root", settings), PLACE / "root", launched=False))


def test_every_override_is_a_field_of_the_class_that_it_lands_on():
    table = json.loads((Path(__file__).parent / "bridge-fields.json").read_text())["sections"]
    for route, encoder in (
        ("direct-hf", "HFEnergonTaskEncoderConfig"),
        ("direct", "HFEnergonTaskEncoderConfig"),
        ("recipe-owned", "QwenVLEnergonTaskEncoderConfig"),
        ("recipe", "QwenVLEnergonTaskEncoderConfig"),
    ):
        for key in _keys_of_all_modes(route):
            section, _, field = key.rpartition(".")
            classes = table[section] if section != "dataset.task_encoder" else {encoder: table[section][encoder]}
            assert [name for name, fields in classes.items() if field not in fields] == [], key


def _keys_of_all_modes(route: str) -> set[str]:
    """Return the keys rendered on this route: for every mode, both ways to run, and with every optional setting."""
    keys = set()
    for mode, run_by in itertools.product(("pretrain", "sft", "lora", "dora"), ("launcher", "allocation")):
        sizes = dict.fromkeys(("tp", "pp", "cp", "ep", "etp", "eval_interval", "eval_iters"), 1)
        given = {"processor_route": route, "mode": mode, "run_by": run_by, "recipe": "other_config", **sizes}
        words = render_training(PLACE / "root", training_settings(PLACE, **given)).command
        words = words[words.index("--recipe") :]
        keys |= {word.partition("=")[0] for word in words if "=" in word and not word.startswith("-")}
    assert len(keys) > 20
    return keys


@pytest.mark.skipif(
    not {"BRIDGE_CHECKOUT", "MEGATRON_LM_CHECKOUT"} <= set(os.environ),
    reason="BRIDGE_CHECKOUT and MEGATRON_LM_CHECKOUT name no checkouts to read the fields from",
)
def test_table_of_fields_is_what_the_checkouts_have():
    made = table_of(Path(os.environ["BRIDGE_CHECKOUT"]), Path(os.environ["MEGATRON_LM_CHECKOUT"]))
    assert made == json.loads((Path(__file__).parent / "bridge-fields.json").read_text())


def test_a_shell_that_copies_the_command_gets_the_same_words(tmp_path):
    submission = render_training(PLACE / "root", training_settings(PLACE))
    script = copied(submission).replace("./scripts/training/train.sh", "printf '%s\\n'", 1)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines() == list(submission.command[1:])


def test_training_goes_on_from_its_newest_complete_checkpoint(place):
    root, settings = place / "root", training_settings(place)
    saved = root / "training" / settings.name / "checkpoints"
    (saved / "iter_0000500").mkdir(parents=True)
    (saved / "latest_checkpointed_iteration.txt").write_text("500\n")
    assert "checkpoint.load=null" in render_training(root, settings).command  # empty: its writer was killed
    (saved / "iter_0000500" / "common.pt").write_bytes(b"")
    assert "checkpoint.load=null" in render_training(root, settings).command  # killed before it wrote its configuration
    (saved / "iter_0000500" / "run_config.yaml").write_text("model: {}")
    assert f"checkpoint.load={saved}" in render_training(root, settings).command
    fresh = training_settings(place, resume=False)
    assert "checkpoint.load=null" in render_training(root, fresh).command


def test_launcher_gets_nothing_of_this_flows_own_surroundings():
    surroundings = {
        "PATH": "/usr/bin",
        "HOME": "/home/me",
        "HF_TOKEN": "secret",
        "PREFECT_API_KEY": "secret",
        "SLURM_JOB_ID": "7",
        "SLURM_CONF": "/etc/slurm.conf",
        "SBATCH_PARTITION": "cpu",
        "VIRTUAL_ENV": "/venv",
    }
    launcher = launcher_environment((), surroundings)
    assert set(launcher) == {"PATH", "HOME", "HF_TOKEN", "SLURM_CONF"}
    assert launcher["PATH"].startswith("/usr/bin:")


def test_program_in_an_allocation_gets_what_a_launchers_job_would_have():
    surroundings = {
        "PATH": "/usr/bin",
        "HOME": "/home/me",
        "HF_TOKEN": "secret",
        "WANDB_API_KEY": "secret",
        "PREFECT_API_KEY": "secret",
        "SLURM_JOB_ID": "7",
        "VIRTUAL_ENV": "/venv",
        "PYTHONHOME": "/venv",
        "LD_PRELOAD": "/lib/ours.so",
    }
    assert allocation_environment(("HF_TOKEN",), surroundings) == {
        "PATH": "/usr/bin",
        "HOME": "/home/me",
        "HF_TOKEN": "secret",
        "SLURM_JOB_ID": "7",
        "PYTHONPATH": "/opt/Megatron-Bridge/src:/opt/Megatron-Bridge/3rdparty/Megatron-LM",
        "PYTHONUNBUFFERED": "1",
        "SLURM_UNBUFFEREDIO": "1",
        "TORCHX_MAX_RETRIES": "0",
    }


def test_tasks_of_an_allocation_share_the_cpus_of_the_node():
    settings = training_settings(PLACE, run_by="allocation")
    assert with_cpu_share(settings, {"SLURM_CPUS_ON_NODE": "96"}).cpus_per_task == 12
    assert with_cpu_share(settings, {}).cpus_per_task is None
    assert with_cpu_share(training_settings(PLACE), {"SLURM_CPUS_ON_NODE": "96"}).cpus_per_task is None


def test_a_job_launched_under_the_former_name_of_its_route_is_the_same_job():
    settings = training_settings(PLACE)
    former = settings.model_dump(mode="json", exclude={"poll_seconds", "submission_dry_run"})
    former["processor_route"] = "recipe"
    identity = digest({"kind": "train-model", "root": str(PLACE / "root"), "settings": former})
    for route in ("direct-hf", "recipe-owned", "direct", "recipe"):
        job = training_settings(PLACE, processor_route=route)
        assert identity_of(render_training(PLACE / "root", job), PLACE / "root") == identity
