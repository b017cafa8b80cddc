"""Cluster profiles: one YAML file for a site or a kind of cluster."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, ValidationError

from deployments.slurm.variables import JobVariables
from tasks.errors import SettingsError
from tasks.settings import PLAN_IN_MEMORY, Positive, Settings


class LocalDask(Settings):
    """Dask workers on this machine, one process each."""

    kind: Literal["local"] = "local"
    workers: Positive | None = Field(None, description="Worker processes; null: the CPUs this process may use.")
    threads_per_worker: Positive = Field(1, description="Tasks that a worker runs at a time.")
    memory: str | None = Field(None, description="Memory of each worker, as 4GiB; null: an equal share.")


class AddressDask(Settings):
    """A Dask scheduler that is already running."""

    kind: Literal["address"] = "address"
    address: str = Field(description="Address of the scheduler, as tcp://host:8786.")
    workers: Positive = Field(8, description="Workers it has; decides how many jobs are in flight.")


class ClusterProfile(Settings):
    """A cluster: where the Dask workers of per-shard work come from, and what its Slurm jobs ask for."""

    name: str = Field(description="Name of the profile.")
    dask: Annotated[LocalDask | AddressDask, Field(discriminator="kind")] = LocalDask()
    task_runs: Positive = Field(
        2000, description="Most task runs of a stage; of more shards or tars, each task run takes several in a row."
    )
    plan_in_memory: Positive = Field(
        PLAN_IN_MEMORY,
        description="Up to so many samples a plan searches uids in the flow's own memory (30 bytes a sample); above, "
        "the workers do, in parts by the uid's first digits.",
    )
    slurm: JobVariables = Field(JobVariables(), description="Defaults of the job variables of its Slurm work pool.")


def load_profile(cluster: str) -> ClusterProfile:
    """The profile ``cluster``: the name of a shipped one, or the path of a YAML file. Raises SettingsError."""
    path = Path(cluster)
    text = _read(path) if path.suffix in {".yaml", ".yml"} else _read_shipped(cluster)
    try:
        return ClusterProfile.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise SettingsError(f"cluster profile {cluster}: not YAML: {error}") from None
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise SettingsError(f"cluster profile {cluster}: {faults}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cluster profile {path}: {error.strerror}; name a shipped profile or a file") from None


def _read_shipped(name: str) -> str:
    shipped = {p.name.removesuffix(".yaml"): p for p in (files("deployments") / "clusters").iterdir()}
    if name not in shipped:
        known = ", ".join(sorted(shipped))
        raise SettingsError(f"cluster {name!r} is unknown; shipped profiles: {known}; or give the path of a YAML file")
    return shipped[name].read_text(encoding="utf-8")
