"""Job variables of the Slurm work pool. A cluster profile, a deployment or a run sets them, in Slurm's syntax."""

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from tasks.contracts.plain_text import shown
from tasks.contracts.refused_directives import refusal
from tasks.contracts.settings import Count, Positive, Settings

# Options that the variables below add to the batch script; only these can be dropped.
GENERATED_DIRECTIVES = frozenset({
    "account", "chdir", "comment", "constraint", "cpus-per-task", "dependency", "exclude", "exclusive",
    "gpus-per-node", "gres", "job-name", "mail-type", "mail-user", "mem", "mem-per-cpu", "no-requeue", "nodelist",
    "nodes", "ntasks-per-node", "open-mode", "output", "partition", "qos", "requeue", "reservation", "signal", "time",
})  # fmt: skip


def _text(pattern: str) -> Any:
    return StringConstraints(pattern=pattern, max_length=1000)


Names = Annotated[str, _text(r"^[A-Za-z0-9_][A-Za-z0-9_.,@+-]*$")]
Time = Annotated[str, _text(r"^(UNLIMITED|\d+|\d+:\d{1,2}|\d+:\d{1,2}:\d{1,2}|\d+-\d{1,2}(:\d{1,2}){0,2})$")]
Memory = Annotated[str, _text(r"^\d+[KMGT]?$")]
Nodes = Annotated[str, _text(r"^[A-Za-z0-9_][A-Za-z0-9_.,\[\]-]*$")]
Line = Annotated[str, _text(r"^[^\x00-\x1f\x7f]+$")]


class JobVariables(Settings):
    """The variables of one Slurm job for one flow run. Unset variables keep the site's defaults."""

    partition: Names | None = Field(
        None, title="Partition", description="Partition, or several separated by commas (--partition)."
    )
    account: Names | None = Field(None, title="Account", description="Account that is charged (--account).")
    qos: Names | None = Field(None, title="QOS", description="Quality of service (--qos).")
    time_limit: Time | None = Field(
        None, title="Time limit", description="As Slurm writes it: minutes, 1:30:00 or 2-12:00:00 (--time)."
    )
    nodes: Positive = Field(1, title="Nodes", description="Nodes of the job; the flow runs on the first (--nodes).")
    ntasks_per_node: Positive | None = Field(
        None, title="Tasks per node", description="Tasks on each node (--ntasks-per-node)."
    )
    cpus_per_task: Positive | None = Field(
        None, title="CPUs per task", description="CPUs of each task (--cpus-per-task)."
    )
    mem: Memory | None = Field(None, title="Memory per node", description="As 64G; 0: all of the node (--mem).")
    mem_per_cpu: Memory | None = Field(
        None, title="Memory per CPU", description="As 4G; instead of memory per node (--mem-per-cpu)."
    )
    gpus_per_node: Count | None = Field(
        None, title="GPUs per node", description="GPUs on each node (--gpus-per-node); 0 or null: none."
    )
    gpu_type: Names | None = Field(None, title="GPU type", description="Type of GPU as the site names it, as h100.")
    gres: Annotated[str, _text(r"^[A-Za-z0-9_.:,()=/*-]+$")] | None = Field(
        None, title="Generic resources", description="As gpu:8, for sites that want it so (--gres)."
    )
    constraint: Annotated[str, _text(r"^[A-Za-z0-9_.&|\[\]()*,:!+-]+$")] | None = Field(
        None, title="Constraint", description="Features that nodes must have (--constraint)."
    )
    exclusive: bool = Field(False, title="Exclusive", description="Whole nodes, shared with nobody (--exclusive).")
    reservation: Names | None = Field(None, title="Reservation", description="Reservation to use (--reservation).")
    nodelist: Nodes | None = Field(None, title="Node list", description="Nodes to run on, as c[1-4] (--nodelist).")
    exclude: Nodes | None = Field(None, title="Excluded nodes", description="Nodes to avoid (--exclude).")
    dependency: Annotated[str, _text(r"^[A-Za-z0-9_:,?+-]+$")] | None = Field(
        None, title="Dependency", description="As afterok:123 (--dependency)."
    )
    requeue: bool = Field(
        False,
        title="Let Slurm requeue",
        description="Slurm restarts the job after preemption or a node failure, and the worker only reports it; "
        "otherwise --no-requeue, and the worker reschedules the run.",
    )
    signal_lead_seconds: int = Field(
        120,
        ge=0,
        le=65535,
        title="Notice before the time limit",
        description="Seconds before the time limit at which the flow gets SIGTERM, at most a quarter of the limit; "
        "0: no notice (--signal).",
    )
    job_name: Line | None = Field(
        None, title="Job name", description="Name in squeue; null: the run's. Unusual characters become underscores."
    )
    comment: Line | None = Field(
        None, title="Comment", description="Added to the job's comment, which names the flow run (--comment)."
    )
    mail_user: Annotated[str, _text(r"^[A-Za-z0-9_.+-]+(@[A-Za-z0-9_.-]+)?$")] | None = Field(
        None, title="Mail to", description="User or address that Slurm writes to (--mail-user)."
    )
    mail_type: Annotated[str, _text(r"^[A-Z_0-9]+(,[A-Z_0-9]+)*$")] | None = Field(
        None, title="Mail on", description="As END,FAIL (--mail-type)."
    )
    working_dir: Line | None = Field(
        None, title="Working directory", description="Folder in which the flow starts; null: the job's own (--chdir)."
    )
    log_dir: Line = Field(
        "~/prefect-slurm",
        title="Log directory",
        description="Shared folder that the worker and the nodes can write to; each job gets a folder in it.",
    )
    env: dict[str, str | None] = Field(
        {},
        title="Environment variables",
        description="Set for the job in a file that only its owner can read; null unsets one.",
    )
    modules: list[Annotated[str, _text(r"^[A-Za-z0-9_][A-Za-z0-9_./+-]*$")]] = Field(
        [], title="Modules", description="Environment modules to load, in order."
    )
    setup: list[Line] = Field(
        [],
        title="Set-up lines",
        description="Lines of shell that run before the flow, as: source /shared/venv/bin/activate",
    )
    container_image: Annotated[str, _text(r"^[^\s\x00-\x1f-][^\x00-\x1f]*$")] | None = Field(
        None, title="Container image", description="Image to run the flow in; it needs this project inside."
    )
    container_mounts: list[Annotated[str, _text(r"^/[^\x00-\x1f,]*$")]] = Field(
        [], title="Container mounts", description="Folders to mount, as /shared:/shared[:ro]."
    )
    container_runtime: Literal["pyxis", "apptainer"] = Field(
        "pyxis", title="Container runtime", description="pyxis: srun --container-image; apptainer: apptainer exec."
    )
    extra_directives: list[Annotated[str, _text(r"^[#-][^\x00-\x1f\x7f]*$")]] = Field(
        [],
        title="Extra directives",
        description="Raw lines for the head of the script: --licenses=x becomes a #SBATCH line, #… stays as it is. "
        "What multiplies the job or sends it elsewhere (--array, --clusters, --requeue, --wait) is refused.",
    )
    drop_directives: list[str] = Field(
        [], title="Dropped directives", description="Names of generated options that the site forbids, as mem."
    )
    on_time_limit: Literal["fail", "reschedule"] = Field(
        "fail", title="At the time limit", description="fail: the run fails; reschedule: it runs again and resumes."
    )
    max_reschedules: Count = Field(
        3, title="Most reschedules", description="How often the worker may schedule the same run again."
    )

    def filled_with(self, more: dict[str, Any]) -> Self:
        """Return a copy updated with ``more``. Variables that were never set stay unset. Raises ValidationError."""
        return type(self).model_validate({**self.model_dump(exclude_unset=True), **more})

    @field_validator("drop_directives")
    @classmethod
    def _known_directives(cls, names: list[str]) -> list[str]:
        names = [name.lstrip("-") for name in names]
        if unknown := sorted(set(names) - GENERATED_DIRECTIVES):
            raise ValueError(
                f"{', '.join(unknown)}: not a generated directive; those are {', '.join(sorted(GENERATED_DIRECTIVES))}"
            )
        return names

    @field_validator("extra_directives")
    @classmethod
    def _one_job_here(cls, lines: list[str]) -> list[str]:
        for number, line in enumerate(lines, 1):
            if why := refusal(line):
                raise ValueError(f"line {number} is refused: {why}")
        return lines

    @field_validator("log_dir", "working_dir")
    @classmethod
    def _absolute_path(cls, value: str | None) -> str | None:
        if value is None or value.startswith("~/") or PurePosixPath(value).is_absolute():
            return value
        raise ValueError(f"{value!r} must be an absolute path, or start with ~/: the job starts elsewhere")

    @field_validator("env")
    @classmethod
    def _names_that_a_shell_takes(cls, env: dict[str, str | None]) -> dict[str, str | None]:
        for name in env:
            if not (name.isascii() and name.isidentifier()):
                raise ValueError(f"{shown(name)} cannot be the name of an environment variable")
        return env

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.mem is not None and self.mem_per_cpu is not None:
            raise ValueError("mem and mem_per_cpu exclude each other; set one of them to null")
        if self.gpu_type and not self.gpus_per_node:
            raise ValueError(f"gpu_type is {self.gpu_type!r}, but gpus_per_node asks for none")
        if self.container_mounts and not self.container_image:
            raise ValueError("container_mounts are set, but there is no container_image")
        return self


def notice_seconds(variables: JobVariables, default_limit: int | None = None) -> int:
    """Return ``signal_lead_seconds``, but at most a quarter of the time limit, so that the flow has time to work.

    ``default_limit`` is the limit in seconds of a job without ``time_limit``.
    """
    limit = time_limit_seconds(variables.time_limit) if variables.time_limit else default_limit
    return min(variables.signal_lead_seconds, max(1, limit // 4)) if limit else variables.signal_lead_seconds


def time_limit_seconds(limit: str | None) -> int | None:
    """Return the seconds of a time limit in sbatch's format (its manual, ``--time``); None if unlimited or unknown."""
    if limit is None or limit == "UNLIMITED":
        return None
    days, dash, rest = limit.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:
        hours, minutes, seconds = {1: (0, *parts, 0), 2: (0, *parts), 3: tuple(parts)}[len(parts)]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
