"""Cluster profiles: one YAML file per site or kind of cluster."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from tasks.contracts.errors import SettingsError
from tasks.contracts.job_variables import JobVariables, time_limit_seconds
from tasks.contracts.settings import PLAN_IN_MEMORY, Count, Positive, Settings

Memory = Annotated[str, Field(pattern=r"^\d+(\.\d+)? ?[kKMGT]?i?B$")]


class LocalDask(Settings):
    """Dask workers on this machine, one process each."""

    kind: Literal["local"] = "local"
    workers: Positive | None = Field(None, description="Worker processes; null: the CPUs this process may use.")
    threads_per_worker: Positive = Field(1, description="Tasks that a worker runs at a time.")
    memory: Memory | None = Field(None, description="Memory of each worker, as 4GiB; null: an equal share.")


class AddressDask(Settings):
    """A Dask scheduler that is already running."""

    kind: Literal["address"] = "address"
    address: str = Field(pattern=r"^[a-z]+://.+", description="Address of the scheduler, as tcp://host:8786.")
    workers: Positive = Field(8, description="Workers it has; decides how many jobs are in flight.")
    startup_seconds: Positive = Field(60, description="Seconds in which it must have a worker; then the flow fails.")


class NodesDask(Settings):
    """Dask workers on the nodes of a Slurm cluster; what their jobs ask for is in the profile's ``slurm:``."""

    threads_per_worker: Positive = Field(1, description="Tasks that a worker runs at a time.")
    workers: Positive | None = Field(
        None, description="Workers in each job (slurm) or on each node (srun); null: CPUs over threads_per_worker."
    )
    memory: Memory | None = Field(
        None, description="Memory of each worker, as 4GiB; null: an equal share of the job's mem, else of the node's."
    )
    interface: str | None = Field(
        None, description="Network interface of scheduler and workers, as ib0; null: the host's own address."
    )
    local_directory: str = Field("/tmp", description="Folder on the nodes' own disks for Dask's working files.")
    startup_seconds: Positive = Field(
        900, description="Seconds without any worker, queueing included, after which the flow fails and says why."
    )


class SlurmDask(NodesDask):
    """Dask workers in Slurm jobs of their own, which the flow submits and cancels (dask-jobqueue)."""

    kind: Literal["slurm"] = "slurm"
    jobs: Positive = Field(2, description="Slurm jobs, one node each; the most of them if minimum_jobs is set.")
    minimum_jobs: Positive | None = Field(
        None, description="Adaptive: keep this many, and more only while there is work; null: always all."
    )
    job: JobVariables = Field(
        JobVariables(), description="Job variables in which these jobs differ from the profile's slurm."
    )
    lifetime_margin_seconds: Count = Field(
        300, description="Seconds before the job's time limit at which its workers stop taking work and end."
    )
    lifetime_stagger_seconds: Count = Field(
        60, description="Chance moves the end of each worker by up to this, so that they do not all go at once."
    )

    @model_validator(mode="after")
    def _minimum_is_below(self) -> Self:
        if self.minimum_jobs is not None and self.minimum_jobs > self.jobs:
            raise ValueError(f"minimum_jobs ({self.minimum_jobs}) is above jobs ({self.jobs}); lower the first")
        return self


class SrunDask(NodesDask):
    """Dask workers on all nodes of the Slurm job that the flow itself runs in, started with srun."""

    kind: Literal["srun"] = "srun"


Dask = Annotated[LocalDask | AddressDask | SlurmDask | SrunDask, Field(discriminator="kind")]


class ClusterProfile(Settings):
    """A cluster: where the Dask workers of per-shard work come from, and what its Slurm jobs ask for."""

    name: str = Field(description="Name of the profile.")
    dask: Dask = LocalDask()
    task_runs: Positive = Field(
        2000, description="Most task runs of a stage; of more shards or tars, each task run takes several in a row."
    )
    plan_in_memory: Positive = Field(
        PLAN_IN_MEMORY,
        description="Up to so many samples a plan searches uids in the flow's own memory (30 bytes a sample); above, "
        "the workers do, in parts by the uid's first digits.",
    )
    slurm: JobVariables = Field(JobVariables(), description="Defaults of the job variables of its Slurm work pool.")

    def worker_job(self, dask: SlurmDask) -> JobVariables:
        """Return the variables of a Dask worker job: the profile's, overridden by those in ``dask.job``.

        The job has one node, without notice or requeue: its workers end before the time limit, and dask-jobqueue
        replaces a job that has ended.
        """
        fixed = {"nodes": 1, "ntasks_per_node": None, "requeue": False, "signal_lead_seconds": 0, "dependency": None}
        return self.slurm.filled_with({**dask.job.model_dump(exclude_unset=True), **fixed})

    @model_validator(mode="after")
    def _workers_live_for_a_while(self) -> Self:
        if isinstance(self.dask, SlurmDask):
            lifetime_seconds(self.dask, self.worker_job(self.dask))
        return self


def lifetime_seconds(dask: SlurmDask, job: JobVariables) -> int | None:
    """Return the seconds after which a worker ends; None without a time limit. Raises ValueError if none are left."""
    limit = time_limit_seconds(job.time_limit)
    if limit is None:
        return None
    lifetime = limit - dask.lifetime_margin_seconds
    if lifetime <= dask.lifetime_stagger_seconds:
        raise ValueError(
            f"lifetime_margin_seconds ({dask.lifetime_margin_seconds}) and lifetime_stagger_seconds "
            f"({dask.lifetime_stagger_seconds}) leave nothing of the time limit {job.time_limit}; lower them"
        )
    return lifetime


def load_profile(cluster: str) -> ClusterProfile:
    """Load the profile ``cluster``, a shipped profile's name or a YAML file's path. Raises SettingsError."""
    path = Path(cluster)
    text = _read(path) if path.suffix in {".yaml", ".yml"} else _read_shipped(cluster)
    try:
        return ClusterProfile.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        faults = "; ".join(_in_words(fault) for fault in error.errors())
        raise SettingsError(f"cluster profile {cluster}: {faults}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"cluster profile {cluster}: not YAML: {' '.join(str(error).split())}") from None


def _in_words(fault: Any) -> str:
    """Return the message for a validation error: its key, its value and what is wrong."""
    known = _settings_at(fault["loc"][:-1])
    # pydantic's location contains the kind of a union's member; the file does not.
    kinds = {"local", "address", "slurm", "srun"} if fault["loc"][:1] == ("dask",) else set()
    key = ".".join(str(part) for n, part in enumerate(fault["loc"]) if not (n == 1 and part in kinds))
    if fault["type"] == "extra_forbidden":
        return f"{key} is unknown; known here: {', '.join(known)}"
    value = "" if fault["type"] == "missing" else f" is {fault['input']!r}"
    return f"{key or 'the profile'}{value}: {fault['msg'].removeprefix('Value error, ')}"


def _settings_at(where: tuple[int | str, ...]) -> list[str]:
    models: dict[tuple[int | str, ...], type[Settings]] = {(): ClusterProfile, ("slurm",): JobVariables}
    models[("dask", "slurm", "job")] = JobVariables
    models |= {("dask", m.model_fields["kind"].default): m for m in (LocalDask, AddressDask, SlurmDask, SrunDask)}
    return sorted(models[where].model_fields) if where in models else []


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"cluster profile {path}: {why}; name a shipped profile or a YAML file") from None


def _read_shipped(name: str) -> str:
    shipped = {p.name.removesuffix(".yaml"): p for p in (files("deployments") / "clusters").iterdir()}
    if name not in shipped:
        known = ", ".join(sorted(shipped))
        raise SettingsError(f"cluster {name!r} is unknown; shipped profiles: {known}; or give the path of a YAML file")
    return shipped[name].read_text(encoding="utf-8")
