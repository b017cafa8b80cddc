"""Environments for the programs that launch GPU jobs, without variables of this flow that would change the job."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from uv import find_uv_bin

from tasks.megatron.places import BRIDGE
from tasks.megatron.settings import GpuJobSettings

Job = TypeVar("Job", bound=GpuJobSettings)

# A launcher uses an active virtual environment, and ours does not contain its packages.
_OURS = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "UV_PROJECT_ENVIRONMENT")
_OF_THE_LAUNCH = ("PREFECT_",)
# A launcher's job gets PATH, Slurm's variables and those in `env`; the session's variables are kept too.
_OF_A_SESSION = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"})
_OF_SLURM = ("SLURM_", "PMI_", "PMIX_")
_SET_BY_LAUNCHERS = {
    # scripts/training/setup_experiment.py and scripts/conversion/setup_conversion.py: Bridge's sources come first.
    "PYTHONPATH": f"{BRIDGE}/src:{BRIDGE}/3rdparty/Megatron-LM",
    # NeMo-Run's batch script, which both use to submit.
    "PYTHONUNBUFFERED": "1",
    "SLURM_UNBUFFEREDIO": "1",
    "TORCHX_MAX_RETRIES": "0",
}
# A nested sbatch reads these as options of the new job.
_OF_THE_ALLOCATION = ("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_")


def launcher_environment(names: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a launcher that submits a job; variables in ``names`` are always passed."""
    kept = _without(environment, _OF_THE_LAUNCH + _OF_THE_ALLOCATION, keep=(*names, "SLURM_CONF"))
    # The launchers call uv; the user's own uv takes precedence.
    return kept | {"PATH": f"{environment.get('PATH', os.defpath)}{os.pathsep}{Path(find_uv_bin()).parent}"}


def allocation_environment(names: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for srun in an allocation: that of a launcher's job, without this flow's own variables."""
    kept = {
        name: value
        for name, value in environment.items()
        if name in _OF_A_SESSION or name in names or name.startswith(_OF_SLURM)
    }
    return kept | _SET_BY_LAUNCHERS


def with_cpu_share(job: Job, environment: Mapping[str, str] = os.environ) -> Job:
    """Return settings that, in an allocation, give each task its share of the node's CPUs, unless they set a number.

    By default srun gives each task one CPU, which is too few to decode images.
    """
    cpus = environment.get("SLURM_CPUS_ON_NODE", "")
    if job.run_by != "allocation" or job.cpus_per_task or not cpus.isdigit():
        return job
    return job.model_copy(update={"cpus_per_task": max(1, int(cpus) // job.gpus_per_node)})


def _without(environment: Mapping[str, str], prefixes: tuple[str, ...], keep: tuple[str, ...]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name in keep or not (name in _OURS or name.startswith(prefixes))
    }
