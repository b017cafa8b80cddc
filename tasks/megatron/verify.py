"""Comparison of a training's resolved configuration, or an imported checkpoint, with the settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tasks.contracts.errors import PipelineError
from tasks.megatron.checks import gpus_of
from tasks.megatron.places import (
    FIRST_ITERATION,
    RUN_CONFIG,
    TRACKER,
    Mount,
    holds_weights,
    imported_checkpoint,
    mounts_of,
    newest_checkpoint,
    training_places,
)
from tasks.megatron.render import OPTIONAL_KEYS, PROCESSOR_KEYS, overrides_of, seen
from tasks.megatron.settings import CheckpointSettings, TrainingSettings
from tasks.megatron.topology import Topology, faults_of_topology, training_topology

# Other names of fields in older or newer Bridge versions.
_ALSO = {"validation.eval_interval": "train.eval_interval", "validation.eval_iters": "train.eval_iters"}
_TOPOLOGY = ("tp", "pp", "cp", "ep", "etp")


@dataclass(frozen=True)
class Check:
    """One requested value, and the value that was found."""

    what: str
    asked: str
    found: str
    holds: bool


def read_resolved(path: Path) -> dict[str, Any]:
    """Read Bridge's resolved configuration. Raises PipelineError if it is missing or invalid."""
    try:
        content = yaml.load(path.read_bytes(), _Tolerant)
    except OSError:
        raise PipelineError(f"{path} is missing: the training did not get as far as its configuration") from None
    except yaml.YAMLError as error:
        raise PipelineError(f"{path} is not YAML: {error}") from None
    if not isinstance(content, dict):
        raise PipelineError(f"{path} holds no configuration; was it cut short?")
    return content


def check_resolved(root: Path, training: TrainingSettings, resolved: dict[str, Any]) -> tuple[Check, ...]:
    """Compare the resolved configuration with the settings.

    Covers dataset, processor, model, topology, batches, steps, checkpoints and validation.
    """
    mounts = mounts_of(root, training)
    asked = overrides_of(root, training, mounts)
    keys = ["dataset.path", *PROCESSOR_KEYS, "model.hf_model_id", "checkpoint.hf_source_path"]
    keys += ["train.global_batch_size", "train.micro_batch_size", "dataset.micro_batch_size", "dataset.do_validation"]
    return (
        *(_equal(key, asked[key], resolved) for key in keys),
        *_checkpoint_checks(root, training, mounts, resolved),
        _topology_check(training, resolved),
        *_cadence_checks(training, resolved),
    )


def differences(checks: tuple[Check, ...]) -> list[str]:
    """Return a sentence for every difference."""
    return [f"{check.what} is {check.found}, asked was {check.asked}" for check in checks if not check.holds]


def check_imported(root: Path, checkpoint: CheckpointSettings) -> Path:
    """Return the folder of the imported iteration. Raises PipelineError if it is missing or incomplete."""
    folder = imported_checkpoint(root, checkpoint)
    iteration = folder / FIRST_ITERATION
    if newest_checkpoint(folder) is None or not holds_weights(iteration):
        raise PipelineError(
            f"{iteration} is missing or incomplete although the job ended well (it needs weights, {RUN_CONFIG}, and "
            f"{TRACKER} beside it): its log says why"
        )
    return iteration


class _Tolerant(yaml.SafeLoader):
    """YAML loader that reads Bridge's own types (dtypes, callables) as text."""


def _as_text(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> object:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else suffix


yaml.add_multi_constructor("!", _as_text, Loader=_Tolerant)
yaml.add_multi_constructor("tag:yaml.org,2002:python/", _as_text, Loader=_Tolerant)


def _checkpoint_checks(
    root: Path, training: TrainingSettings, mounts: tuple[Mount, ...], resolved: dict[str, Any]
) -> tuple[Check, ...]:
    places = training_places(root, training)
    return (
        _equal("checkpoint.pretrained_checkpoint", str(seen(places.checkpoint, mounts)), resolved),
        _equal("checkpoint.save", str(seen(places.save_dir, mounts)), resolved),
        _equal("checkpoint.save_interval", str(training.save_interval), resolved),
        _equal("train.train_iters", str(training.max_steps), resolved),
    )


def _topology_check(training: TrainingSettings, resolved: dict[str, Any]) -> Check:
    sizes = {name: _look_up(resolved, OPTIONAL_KEYS[name]) for name in _TOPOLOGY}
    # Megatron's defaults: expert tensor parallelism equals tensor parallelism, and context parallelism is off.
    sizes["etp"], sizes["cp"] = sizes["etp"] or sizes["tp"], sizes["cp"] or 1
    asked = training_topology(training)
    wanted = str(asked) if asked else f"one that fits {gpus_of(training)} GPUs"
    if not all(isinstance(size, int) for size in sizes.values()):
        return Check("topology", wanted, f"incomplete: {sizes}", holds=False)
    found = Topology(**sizes)
    holds = found == asked if asked else not faults_of_topology(found, gpus_of(training))
    return Check("topology", wanted, str(found), holds)


def _cadence_checks(training: TrainingSettings, resolved: dict[str, Any]) -> tuple[Check, ...]:
    if not training.do_validation:
        return ()
    interval, iters = (_look_up(resolved, OPTIONAL_KEYS[name]) for name in ("eval_interval", "eval_iters"))
    often = training.eval_interval or f"1 to {training.max_steps}"
    lower, upper = (training.eval_interval or 1), (training.eval_interval or training.max_steps)
    return (
        Check("validation.eval_interval", str(often), _text(interval), _is_within(interval, lower, upper)),
        Check(
            "validation.eval_iters",
            str(training.eval_iters or "at least 1"),
            _text(iters),
            iters == training.eval_iters if training.eval_iters else _is_within(iters, 1, None),
        ),
    )


def _is_within(value: object, lower: int, upper: int | None) -> bool:
    return isinstance(value, int) and value >= lower and (upper is None or value <= upper)


def _equal(key: str, asked: str, resolved: dict[str, Any]) -> Check:
    found = _text(_look_up(resolved, key))
    return Check(key, asked, found, found == asked)


def _look_up(resolved: dict[str, Any], key: str) -> Any:
    value: Any = resolved
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return _look_up(resolved, _ALSO[key]) if value is None and key in _ALSO else value


def _text(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
