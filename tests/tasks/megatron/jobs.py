"""Data roots, Bridge checkouts and settings that the tests of GPU jobs share."""

import json
from pathlib import Path
from typing import Any

from tasks.megatron.settings import CheckpointSettings, TrainingSettings

PLACE = {"account": "vision", "partition": "gpu"}


def data_root(folder: Path) -> Path:
    """Create a data root with an imported checkpoint."""
    root = folder / "root"
    checkpoint = root / "models" / "qwen3.6-35b-a3b-megatron"
    (checkpoint / "iter_0000000").mkdir(parents=True)
    (checkpoint / "iter_0000000" / "common.pt").write_bytes(b"weights")
    (checkpoint / "iter_0000000" / "run_config.yaml").write_text("model: {}")
    (checkpoint / "latest_checkpointed_iteration.txt").write_text("0")
    return root


def bare_bridge(folder: Path) -> Path:
    """Create a checkout with empty scripts."""
    bridge = folder / "bridge"
    names = ("conversion/convert.sh", "conversion/run_conversion.py", "training/train.sh", "training/run_recipe.py")
    for name in names:
        script = bridge / "scripts" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text("")
    return bridge


def image(folder: Path) -> Path:
    """Create a container image."""
    path = folder / "megatron-bridge.sqsh"
    path.write_bytes(b"hsqs")
    return path


def checkpoint_settings(folder: Path, **changes: Any) -> CheckpointSettings:
    """Return the tutorial's import settings, with the paths of ``folder``."""
    given = {**PLACE, "bridge_dir": folder / "bridge", "container_image": str(folder / "megatron-bridge.sqsh")}
    return CheckpointSettings.model_validate({**given, **changes})


def training_settings(folder: Path, **changes: Any) -> TrainingSettings:
    """Return the tutorial's training settings, with the paths of ``folder``."""
    given = {**PLACE, "bridge_dir": folder / "bridge", "container_image": str(folder / "megatron-bridge.sqsh")}
    return TrainingSettings.model_validate({**given, **changes})


def resolved_config(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return the config that Bridge resolves for the tutorial's training; ``changes`` by key, with __ for dots."""
    root = f"{folder}/root"
    model, revision = "Qwen/Qwen3.6-35B-A3B", "995ad96eacd98c81ed38be0c5b274b04031597b0"
    config: dict[str, Any] = {
        "train": {"global_batch_size": 512, "micro_batch_size": 1, "train_iters": 1000},
        "validation": {"eval_interval": 500, "eval_iters": 32},
        "dataset": {
            "path": f"{root}/energon",
            "micro_batch_size": 1,
            "do_validation": True,
            "task_encoder": {"hf_processor_path": model, "hf_processor_revision": revision},
        },
        "model": {
            "hf_model_id": model,
            "tensor_model_parallel_size": 4,
            "pipeline_model_parallel_size": 2,
            "context_parallel_size": 1,
            "expert_model_parallel_size": 4,
            "expert_tensor_parallel_size": 1,
        },
        "checkpoint": {
            "hf_source_path": model,
            "pretrained_checkpoint": f"{root}/models/qwen3.6-35b-a3b-megatron/iter_0000000",
            "save": f"{root}/training/qwen3.6-35b-a3b/checkpoints",
            "save_interval": 500,
        },
    }
    for name, value in changes.items():
        *sections, field = name.split("__")
        place = config
        for section in sections:
            place = place[section]
        place[field] = value
    return json.loads(json.dumps(config))
