"""Every rejected setting, and that the error names it."""

import pytest
from pydantic import ValidationError

from tasks.contracts.errors import SettingsError
from tasks.megatron.checks import check_import, check_launch, check_training
from tests.tasks.megatron.jobs import checkpoint_settings, training_settings

SHELL_TRICKS = [
    "a;reboot",
    "$(reboot)",
    "`reboot`",
    "a b",
    "a'b",
    'a"b',
    "a\nb",
    "a|b",
    "a>b",
    "a&b",
    "a\\b",
    "a*b",
    "--x",
]


@pytest.mark.parametrize("trick", SHELL_TRICKS)
@pytest.mark.parametrize(
    "field", ["account", "partition", "container_image", "name", "hf_model", "hf_revision", "time_limit", "bridge_dir"]
)
def test_nothing_that_a_shell_would_read_gets_into_an_import(tmp_path, field, trick):
    with pytest.raises(ValidationError, match=field):
        checkpoint_settings(tmp_path, **{field: trick})


@pytest.mark.parametrize("trick", SHELL_TRICKS)
@pytest.mark.parametrize("field", ["recipe", "step_func", "dataset_dir", "checkpoint"])
def test_nothing_that_a_shell_would_read_gets_into_a_training(tmp_path, field, trick):
    with pytest.raises(ValidationError, match=field):
        training_settings(tmp_path, **{field: trick})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("mounts", f"/data{trick}") for trick in SHELL_TRICKS if trick != "--x"),
        ("mounts", "data"),
        ("mounts", "/a:/b:/c"),
        ("mounts", "/a,/b"),
        *(("srun_args", f"--mpi={trick}") for trick in SHELL_TRICKS if trick != "--x"),
        ("srun_args", "reboot"),
        *(("overrides", f"logger.x={trick}") for trick in SHELL_TRICKS if trick != "--x"),
        ("overrides", "logger.x=[1,2]"),
        ("overrides", "--dry-run"),
        ("env", "HF_TOKEN=secret"),
        ("env", "A B"),
        ("env", "1A"),
    ],
)
def test_lists_take_plain_words_only_and_no_secrets(tmp_path, field, value):
    with pytest.raises(ValidationError, match=field):
        training_settings(tmp_path, **{field: (value,)})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"hf_revision": "main"}, "40 hex digits"),
        ({"mode": "rl"}, "mode"),
        ({"mode": "sft"}, "is a recipe for pretrain"),
        ({"mode": "pretrain", "recipe": "qwen3_vl_8b_peft_config"}, "is a recipe for lora or dora"),
        ({"mode": "lora", "recipe": "qwen3_vl_8b_sft_config"}, "is a recipe for sft"),
        ({"micro_batch_size": 0}, "micro_batch_size"),
        ({"global_batch_size": 0}, "global_batch_size"),
        ({"max_steps": 0}, "max_steps"),
        ({"nodes": 0}, "nodes"),
        ({"gpus_per_node": 0}, "gpus_per_node"),
        ({"tp": 0}, "tp"),
        ({"processor_route": "other"}, "processor_route"),
        ({"run_by": "hand"}, "run_by"),
        ({"poll_seconds": 0}, "poll_seconds"),
        ({"dataset_dir": "/data/../etc"}, "without .. in it"),
        ({"container_image": "./image.sqsh"}, "an image"),
        ({"overrides": ("dataset.path=/other",)}, "has a setting of its own"),
        ({"overrides": ("++train.micro_batch_size=4",)}, "has a setting of its own"),
        ({"gpu_count": 8}, "gpu_count"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(tmp_path, changes, told):
    with pytest.raises(ValidationError, match=told.replace("+", r"\+")):
        training_settings(tmp_path, **changes)


def test_a_model_of_the_hub_must_be_pinned(tmp_path):
    with pytest.raises(ValidationError, match="hf_revision is null"):
        checkpoint_settings(tmp_path, hf_revision=None)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tp": 3}, "8 GPUs .* not divisible by TP x PP x CP = 3"),
        ({"ep": 16}, "8 GPUs .* not divisible by ETP x EP x PP = 16"),
        ({"gpus_per_node": 3}, "3 GPUs"),
        ({"bridge_dir": "/nowhere"}, "bridge_dir /nowhere holds no scripts/conversion/convert.sh"),
        ({"container_image": "/nowhere/image.sqsh"}, "container_image /nowhere/image.sqsh is not there"),
        ({"container_image": "image.sqsh"}, "looks like a file"),
        ({"mounts": ("/nowhere",)}, "mount /nowhere: /nowhere is not a folder"),
        ({"mounts": ("/tmp:/opt/Megatron-Bridge",)}, "target of two mounts"),
        ({"env": ("NOT_SET_ANYWHERE",)}, "NOT_SET_ANYWHERE is not set"),
        ({"hf_model": "/nowhere/model", "hf_revision": None}, "lies under no mounted folder"),
        ({"name": "qwen3.6-35b-a3b-megatron"}, "not empty"),
    ],
)
def test_import_is_checked_before_it_is_rendered(place, changes, told):
    with pytest.raises(SettingsError, match=told):
        check_import(place / "root", checkpoint_settings(place, **{"name": "new", **changes}))


def test_sound_import_passes(place):
    check_import(place / "root", checkpoint_settings(place, name="new"))
    check_import(place / "root", checkpoint_settings(place, overwrite=True))
    check_import(place / "root", checkpoint_settings(place), joining=True)
    check_import(place / "root", checkpoint_settings(place, name="new", container_image="nvcr.io#nvidia/nemo:26.02"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"gpus_per_node": 4}, "4 GPUs .* not divisible by TP x PP x CP = 8"),
        ({"gpus_per_node": 4}, "4 GPUs .* not divisible by ETP x EP x PP = 8"),
        ({"tp": 16}, "TP x PP x CP = 32"),
        ({"max_steps": 1001}, "512000 train samples, max_steps x global_batch_size asks for 512512"),
        ({"micro_batch_size": 3}, "not divisible by micro_batch_size"),
        ({"nodes": 3, "micro_batch_size": 1}, "512 is not divisible by micro_batch_size x data-parallel ranks = 1 x 3"),
        ({"checkpoint": "/nowhere/iter_0000000"}, "lies under no mounted folder"),
        ({"dataset_dir": "/elsewhere"}, "dataset_dir /elsewhere lies under no mounted folder"),
        ({"hf_model": "/elsewhere/qwen"}, "hf_model /elsewhere/qwen lies under no mounted folder"),
        ({"bridge_dir": "/nowhere"}, "holds no scripts/training/train.sh"),
        ({"bridge_dir": "/nowhere", "run_by": "allocation"}, "holds no scripts/training/run_recipe.py"),
    ],
)
def test_training_is_checked_before_it_is_rendered(place, changes, told):
    with pytest.raises(SettingsError, match=told):
        check_training(place / "root", training_settings(place, **changes), 512_000, 5_173)


def test_sound_training_passes(place):
    check_training(place / "root", training_settings(place), 512_000, 5_173)
    check_training(place / "root", training_settings(place, do_validation=False), 512_000, 0)


def test_all_faults_are_told_at_once(place):
    settings = training_settings(
        place, gpus_per_node=4, container_image="/nowhere.sqsh", checkpoint=place / "root" / "x"
    )
    with pytest.raises(SettingsError) as caught:
        check_training(place / "root", settings, 10, 0)
    for part in ("4 GPUs", "/nowhere.sqsh", "root/x is missing", "10 train samples", "no val samples"):
        assert part in str(caught.value)


def test_dataset_that_is_a_link_to_a_place_that_is_not_mounted_is_refused(place):
    real = place / "elsewhere"
    real.mkdir()
    (place / "root" / "linked").symlink_to(real)
    settings = training_settings(place, dataset_dir=place / "root" / "linked")
    with pytest.raises(SettingsError, match=r"is really .*elsewhere"):
        check_training(place / "root", settings, 512_000, 1)
    seen = training_settings(place, dataset_dir=place / "root" / "linked", mounts=(str(real),))
    check_training(place / "root", seen, 512_000, 1)


def test_data_root_with_special_characters_is_refused(place):
    odd = place / "my root"
    (place / "root").rename(odd)
    with pytest.raises(SettingsError, match=r"root: .*my root"):
        check_import(odd, checkpoint_settings(place, name="new"))


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "this is no Slurm job"),
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "8"}, "has 2 nodes"),
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "1"}, "has 0 GPUs"),
    ],
)
def test_allocation_must_be_the_one_that_was_asked_for(tmp_path, monkeypatch, environment, told):
    srun = tmp_path / "srun"
    srun.write_text("")
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_GPUS_ON_NODE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=told):
        check_launch(training_settings(tmp_path, run_by="allocation"), ())


def test_launch_without_slurms_commands_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="sbatch is not on the PATH"):
        check_launch(training_settings(tmp_path), ())


def test_flow_that_would_keep_gpus_from_the_job_it_waits_for_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "8")
    with pytest.raises(SettingsError, match="own Slurm job holds 8 GPUs while it would wait for another job"):
        check_launch(training_settings(tmp_path), ())


def test_import_that_was_cut_short_is_no_checkpoint(place):
    tracker = place / "root" / "models" / "qwen3.6-35b-a3b-megatron" / "latest_checkpointed_iteration.txt"
    tracker.unlink()
    with pytest.raises(SettingsError, match=r"is incomplete .*import it again"):
        check_training(place / "root", training_settings(place), 512_000, 1)


def test_cache_that_the_job_could_not_see_is_refused(place, monkeypatch):
    (place / "cache").mkdir()
    monkeypatch.setenv("HF_HOME", str(place / "cache"))
    unseen = training_settings(place, env=("HF_HOME",))
    with pytest.raises(SettingsError, match=r"env: HF_HOME .*cache lies under no mounted folder"):
        check_training(place / "root", unseen, 512_000, 1)
    check_training(
        place / "root", training_settings(place, env=("HF_HOME",), mounts=(str(place / "cache"),)), 512_000, 1
    )
