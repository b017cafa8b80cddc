"""Stand-in for Bridge's training program: one process for each GPU; the first resolves, logs and saves."""

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import behaviour

RECIPE = {
    "train.global_batch_size": 512,
    "validation.eval_interval": 2,
    "validation.eval_iters": 32,
    "model.tensor_model_parallel_size": 4,
    "model.pipeline_model_parallel_size": 2,
    "model.context_parallel_size": 1,
    "model.expert_model_parallel_size": 4,
    "model.expert_tensor_parallel_size": 1,
}
FLAGS = {
    "max_steps": "train.train_iters",
    "save_dir": "checkpoint.save",
    "save_interval": "checkpoint.save_interval",
    "pretrained_checkpoint": "checkpoint.pretrained_checkpoint",
}


def main() -> None:
    """Parse strictly, resolve, then train as the test chose."""
    resolved = _resolve()
    behaviour.act("train-start")
    if os.environ["SLURM_PROCID"] != "0":
        return
    path = Path(_pick(resolved, "logger.save_config_filepath"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(resolved | behaviour.changes()))
    _train(resolved)


def _resolve() -> dict[str, object]:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--recipe", choices=["qwen35_vl_35b_a3b_pretrain_mock_config"], required=True)
    parser.add_argument("--mode", choices=["pretrain", "sft", "lora", "dora"], required=True)
    parser.add_argument("--dataset", choices=["energon"], required=True)
    parser.add_argument("--step-func", choices=["qwen3_vl_step", "vlm_step"], required=True)
    for name in FLAGS:
        parser.add_argument(f"--{name}", required=True, type=int if name in {"max_steps", "save_interval"} else str)
    options, overrides = parser.parse_known_args()
    config: dict[str, object] = {}
    for key, value in RECIPE.items():
        _put(config, key, value)
    for name, key in FLAGS.items():
        _put(config, key, getattr(options, name))
    for override in overrides:
        key, equals, value = override.partition("=")
        if override.startswith("-") or not equals:
            parser.error(f"Expected override in KEY=VALUE form, got {override!r}")
        _put(config, key, _value(value))
    return config


def _train(resolved: dict[str, object]) -> None:
    steps, interval = int(_pick(resolved, "train.train_iters")), int(_pick(resolved, "checkpoint.save_interval"))
    folder = Path(_pick(resolved, "checkpoint.save"))
    first = 0
    if load := _pick(resolved, "checkpoint.load"):
        first = int((Path(load) / "latest_checkpointed_iteration.txt").read_text())
        print(f"loaded checkpoint from {load} at iteration {first}", flush=True)
    for step in range(first + 1, steps + 1):
        _log(step, steps, int(_pick(resolved, "train.global_batch_size")))
        if step % interval == 0 or step == steps:
            behaviour.save(folder, step)
            print(f"  successfully saved checkpoint from iteration {step:7d} to {folder}", flush=True)
        behaviour.act(f"step-{step}")
    print(f" validation loss at iteration {steps} on validation set | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 |")


def _log(step: int, steps: int, batch: int) -> None:
    fields = [
        f"iteration {step:8d}/{steps:8d}",
        f"consumed samples: {step * batch:12d}",
        "elapsed time per iteration (ms): 1000.0",
        f"global batch size: {batch:5d}",
        f"lm loss: {4 / step:.6E}",
        "number of skipped iterations:   0",
        "number of nan iterations:   0",
    ]
    print(f" {' | '.join(fields)} |", flush=True)


def _put(config: dict[str, object], key: str, value: object) -> None:
    *sections, field = key.split(".")
    for section in sections:
        config = config.setdefault(section, {})
    config[field] = value


def _pick(config: dict[str, object], key: str) -> object:
    for part in key.split("."):
        config = config[part]
    return config


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
