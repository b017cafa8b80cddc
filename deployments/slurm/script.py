"""The batch script of a job: sorted #SBATCH lines, then a body that runs the flow and writes an exit receipt."""

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from tasks.contracts.job_variables import JobVariables, notice_seconds
from tasks.slurm.job_folder import ENVIRONMENT_FILE, LOG_FILE

_BODY = (Path(__file__).parent / "body.sh").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Job:
    """One attempt of a flow run as a Slurm job: its folder and its command."""

    name: str
    tag: str
    folder: Path
    command: tuple[str, ...]
    path: str | None = None  # folder of `prefect`, prepended to PATH; the set-up may override it


def render(variables: JobVariables, job: Job) -> str:
    """Return the text of the batch script. It holds only public values, and only ``setup`` runs as shell code."""
    head = [f"#SBATCH {line}" for line in directive_lines(directives(variables, job))]
    extra = [line if line.startswith("#") else f"#SBATCH {line}" for line in variables.extra_directives]
    return "\n".join(["#!/bin/bash", *head, *extra, "", _body(variables, job)])


def directives(variables: JobVariables, job: Job) -> dict[str, str | None]:
    """Return the sbatch options by name. The value None means an option without a value."""
    v = variables
    folder = str(job.folder)
    notice = notice_seconds(v)
    options: dict[str, str | int | None] = {
        "account": v.account,
        "chdir": _home(v.working_dir) or folder,
        "comment": f"{job.tag} {v.comment}" if v.comment else job.tag,
        "constraint": v.constraint,
        "cpus-per-task": v.cpus_per_task,
        "dependency": v.dependency,
        "exclude": v.exclude,
        "gpus-per-node": f"{v.gpu_type}:{v.gpus_per_node}" if v.gpu_type else v.gpus_per_node or None,
        "gres": v.gres,
        "job-name": safe_name(v.job_name or job.name),
        "mail-type": v.mail_type,
        "mail-user": v.mail_user,
        "mem": v.mem,
        "mem-per-cpu": v.mem_per_cpu,
        "nodelist": v.nodelist,
        "nodes": v.nodes,
        "ntasks-per-node": v.ntasks_per_node,
        "open-mode": "append",
        # A percent sign starts a Slurm placeholder.
        "output": f"{folder}/{LOG_FILE}".replace("%", "%%"),
        "partition": v.partition,
        "qos": v.qos,
        "reservation": v.reservation,
        # Only to the batch shell, as SIGUSR1, so that the receipt distinguishes it from scancel's SIGTERM.
        "signal": f"B:USR1@{notice}" if notice else None,
        "time": v.time_limit,
    }
    flags = {"exclusive": v.exclusive, "requeue": v.requeue, "no-requeue": not v.requeue}
    given: dict[str, str | None] = {name: str(value) for name, value in options.items() if value is not None}
    given |= {name: None for name, wanted in flags.items() if wanted}
    return {name: given[name] for name in sorted(given) if name not in v.drop_directives}


def directive_lines(options: dict[str, str | None]) -> list[str]:
    """Return the options in the syntax of #SBATCH lines."""
    return [f"--{name}" if value is None else f"--{name}={quote(value)}" for name, value in options.items()]


def quote(value: str) -> str:
    """Quote a value for an #SBATCH line: sbatch has its own rules for quotes, backslashes and comments."""
    if re.fullmatch(r"[A-Za-z0-9_.,:/@%+=-]+", value):
        return value
    return '"' + re.sub(r"""(["'\\#])""", r"\\\1", value) + '"'


def environment_path(variables: JobVariables) -> str | None:
    """Return the folder of this Python (on a shared file system), or None for a container, which has its own."""
    return None if variables.container_image else str(Path(sys.executable).parent)


def safe_name(name: str) -> str:
    """Return a job name that is safe for all tools: special characters become underscores."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", name).strip("_")[:120] or "flow-run"


def _body(variables: JobVariables, job: Job) -> str:
    prepare = [f'export PATH={shlex.quote(job.path)}:"$PATH"'] if job.path else []
    prepare += [f". {shlex.quote(str(job.folder / ENVIRONMENT_FILE))}"]
    if variables.modules:
        prepare += ["type module >/dev/null 2>&1 || . /etc/profile", f"module load {shlex.join(variables.modules)}"]
    parts = {
        "@JOB_FOLDER@": shlex.quote(str(job.folder)),
        "@PREPARE@": "\n".join([*prepare, *variables.setup]),
        "@COMMAND@": shlex.join([*_container(variables), *job.command]),
    }
    # Replace in one pass, so that a value that looks like a placeholder stays as it is.
    return re.sub("|".join(parts), lambda found: parts[found[0]], _BODY)


def _container(variables: JobVariables) -> list[str]:
    if variables.container_image is None:
        return []
    mounts = ",".join(variables.container_mounts)
    if variables.container_runtime == "apptainer":
        return ["apptainer", "exec", *(["--bind", mounts] if mounts else []), variables.container_image]
    where = ["srun", "--nodes=1", "--ntasks=1", f"--container-image={variables.container_image}"]
    return [*where, f"--container-mounts={mounts}"] if mounts else where


def _home(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser())
