"""Topology of a model over GPUs, and the checks that it fits the number of GPUs."""

from dataclasses import dataclass

from tasks.megatron.settings import CheckpointSettings, TrainingSettings


@dataclass(frozen=True)
class Topology:
    """Sizes of the parallel groups: tensor, pipeline, context, expert, expert tensor."""

    tp: int
    pp: int
    cp: int
    ep: int
    etp: int

    def __str__(self) -> str:
        return f"TP{self.tp} PP{self.pp} CP{self.cp} EP{self.ep} ETP{self.etp}"


_QWEN_35B = Topology(tp=4, pp=2, cp=1, ep=4, etp=1)
RECIPES = {
    "qwen35_vl_35b_a3b_pretrain_mock_config": _QWEN_35B,
    "qwen35_vl_35b_a3b_pretrain_8gpu_h100_bf16_mock_config": _QWEN_35B,
}
"""Topologies of recipes, from Megatron-Bridge's recipes/qwen_vl/h100/qwen35_vl.py: one recipe with two names."""


def import_topology(checkpoint: CheckpointSettings) -> Topology:
    """Return the topology of an import."""
    return Topology(checkpoint.tp, checkpoint.pp, 1, checkpoint.ep, checkpoint.etp)


def training_topology(training: TrainingSettings) -> Topology | None:
    """Return the topology of a training, or None if the recipe is unknown and the settings do not set all sizes."""
    asked = {name: getattr(training, name) for name in ("tp", "pp", "cp", "ep", "etp")}
    known = RECIPES.get(training.recipe)
    if known is None and None in asked.values():
        return None
    return Topology(**{name: size or getattr(known, name) for name, size in asked.items()})


def faults_of_topology(topology: Topology, gpus: int) -> list[str]:
    """Return the reasons why the topology does not fit ``gpus`` GPUs, by the rules of Bridge's launchers."""
    faults = []
    dense = topology.tp * topology.pp * topology.cp
    if gpus % dense:
        faults.append(f"{gpus} GPUs (nodes x gpus_per_node) are not divisible by TP x PP x CP = {dense}")
    expert = topology.etp * topology.ep * topology.pp
    if gpus % expert:
        faults.append(f"{gpus} GPUs (nodes x gpus_per_node) are not divisible by ETP x EP x PP = {expert}")
    return faults


def faults_of_batches(training: TrainingSettings, topology: Topology, gpus: int) -> list[str]:
    """Return why the global batch cannot be divided into micro batches on the data-parallel ranks."""
    ranks = gpus // (topology.tp * topology.pp * topology.cp)
    one_pass = training.micro_batch_size * ranks
    if ranks and training.global_batch_size % one_pass:
        return [
            f"global_batch_size {training.global_batch_size} is not divisible by micro_batch_size x data-parallel "
            f"ranks = {training.micro_batch_size} x {ranks}"
        ]
    return []
