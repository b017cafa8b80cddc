"""The resolved configuration of a training, compared with its settings."""

import pytest
import yaml

from tasks.contracts.errors import PipelineError
from tasks.megatron.describe import describe_checks
from tasks.megatron.verify import check_imported, check_resolved, differences, read_resolved
from tests.tasks.megatron.jobs import checkpoint_settings, resolved_config, training_settings


def faults(place, settings, **changes) -> list[str]:
    return differences(check_resolved(place / "root", settings, resolved_config(place, **changes)))


def test_what_was_asked_holds(place):
    checks = check_resolved(place / "root", training_settings(place), resolved_config(place))
    assert differences(checks) == []
    assert {row[""] for row in describe_checks(checks)} == {"ok"}
    assert len(checks) == 16


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"dataset__path": "/other"}, "dataset.path is /other"),
        ({"dataset__task_encoder__hf_processor_revision": "main"}, "hf_processor_revision is main"),
        ({"dataset__task_encoder__hf_processor_path": None}, "hf_processor_path is null"),
        ({"dataset__micro_batch_size": 2}, "dataset.micro_batch_size is 2, asked was 1"),
        ({"dataset__do_validation": False}, "dataset.do_validation is false, asked was true"),
        ({"model__hf_model_id": "Qwen/Qwen3.5-35B-A3B"}, "model.hf_model_id is Qwen/Qwen3.5-35B-A3B"),
        ({"model__tensor_model_parallel_size": 8}, "topology is TP8 PP2 CP1 EP4 ETP1, asked was TP4 PP2 CP1 EP4 ETP1"),
        ({"model__expert_tensor_parallel_size": None}, "topology is TP4 PP2 CP1 EP4 ETP4"),
        ({"model__expert_model_parallel_size": None}, "topology is incomplete"),
        ({"train__global_batch_size": 256}, "train.global_batch_size is 256"),
        ({"train__micro_batch_size": 4}, "train.micro_batch_size is 4"),
        ({"train__train_iters": 100}, "train.train_iters is 100, asked was 1000"),
        ({"checkpoint__save": "/tmp/x"}, "checkpoint.save is /tmp/x"),
        ({"checkpoint__save_interval": 50}, "checkpoint.save_interval is 50"),
        ({"checkpoint__pretrained_checkpoint": None}, "checkpoint.pretrained_checkpoint is null"),
        ({"checkpoint__hf_source_path": "x"}, "checkpoint.hf_source_path is x"),
        ({"validation__eval_interval": 2000}, "validation.eval_interval is 2000, asked was 1 to 1000"),
        ({"validation__eval_iters": 0}, "validation.eval_iters is 0, asked was at least 1"),
    ],
)
def test_each_difference_is_told(place, changes, told):
    found = faults(place, training_settings(place), **changes)
    assert len(found) == 1 and told in found[0]


def test_cadence_that_was_asked_for_is_held_exactly(place):
    settings = training_settings(place, eval_interval=100, eval_iters=8)
    assert len(faults(place, settings)) == 2
    assert faults(place, settings, validation__eval_interval=100, validation__eval_iters=8) == []
    assert (
        faults(place, training_settings(place, do_validation=False), dataset__do_validation=False, validation={}) == []
    )


def test_older_bridges_keep_the_cadence_under_train(place):
    config = resolved_config(place)
    config["train"] |= config.pop("validation")
    assert differences(check_resolved(place / "root", training_settings(place), config)) == []


def test_recipe_that_is_not_known_must_at_least_fit_the_gpus(place):
    settings = training_settings(place, recipe="other_pretrain_config")
    assert faults(place, settings) == []
    (fault,) = faults(place, settings, model__tensor_model_parallel_size=16)
    assert "one that fits 8 GPUs" in fault


@pytest.mark.parametrize("route", ["direct-hf", "recipe-owned", "direct", "recipe"])
def test_processor_is_checked_on_the_task_encoder_of_every_route(place, route):
    settings = training_settings(place, processor_route=route)
    assert faults(place, settings) == []
    assert len(faults(place, settings, dataset__task_encoder={})) == 2


def test_bridges_own_types_are_no_obstacle(tmp_path):
    path = tmp_path / "resolved.yaml"
    path.write_text("model:\n  dtype: !!python/name:torch.bfloat16\n  fn: !call {a: 1}\n  tp: 4\n")
    assert read_resolved(path)["model"]["tp"] == 4


@pytest.mark.parametrize("content", [None, "", "[1, 2", "- a"])
def test_configuration_that_cannot_be_read_is_named(tmp_path, content):
    path = tmp_path / "resolved.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PipelineError, match=r"resolved\.yaml"):
        read_resolved(path)


def test_resolved_file_is_read_as_it_was_written(place):
    path = place / "resolved.yaml"
    path.write_text(yaml.safe_dump(resolved_config(place)))
    assert differences(check_resolved(place / "root", training_settings(place), read_resolved(path))) == []


def test_import_that_left_nothing_is_no_import(place):
    root = place / "root"
    assert check_imported(root, checkpoint_settings(place)).name == "iter_0000000"
    with pytest.raises(PipelineError, match="new/iter_0000000 is missing"):
        check_imported(root, checkpoint_settings(place, name="new"))


@pytest.mark.parametrize(
    "missing", ["iter_0000000/common.pt", "iter_0000000/run_config.yaml", "latest_checkpointed_iteration.txt"]
)
def test_checkpoint_needs_weights_tracker_and_configuration(place, missing):
    (place / "root" / "models" / "qwen3.6-35b-a3b-megatron" / missing).unlink()
    with pytest.raises(PipelineError, match=r"incomplete.*run_config\.yaml, and latest_checkpointed_iteration\.txt"):
        check_imported(place / "root", checkpoint_settings(place))
