"""Markdown for GPU jobs: the submission, the end of the job, and the verified values."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from tasks.megatron.checks import gpus_of
from tasks.megatron.logs import TrainingLog
from tasks.megatron.places import inside, newest_checkpoint, training_places
from tasks.megatron.render import Submission
from tasks.megatron.settings import CheckpointSettings, GpuJobSettings, TrainingSettings
from tasks.megatron.topology import import_topology, training_topology
from tasks.megatron.verify import Check

_LAUNCHER_HOURS = "04:00:00"
_REQUEUE = (
    "If Slurm requeues the job, it starts over: its command is fixed. Launched again after its end, the training goes "
    "on from its newest checkpoint."
)


def shell_command(submission: Submission, dry_run: bool = False) -> str:
    """Return the command in shell syntax for people, with each flag and override on its own line."""
    arguments = submission.dry_run if dry_run and submission.dry_run else submission.command
    lines = [shlex.quote(arguments[0])]
    for argument in arguments[1:]:
        word = shlex.quote(argument)
        if argument.startswith("--") or "=" in argument or argument == "python":
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    start = "" if submission.dry_run is None else f"cd {shlex.quote(str(submission.job.bridge_dir))}\n"
    return start + " \\\n    ".join(lines)


def describe_submission(submission: Submission, root: Path, launched: bool) -> str:
    """Return the page about a submission: what happens, the resources, the command, the mounts and every setting."""
    job = submission.job
    mounts = [(str(mount.host), str(mount.container)) for mount in submission.mounts]
    parts = [
        f"# {submission.kind}: {'launched' if launched else 'rendered, not launched'}",
        _sentence(submission, launched),
        "## What it takes\n\n" + table(("", ""), _cost_rows(job)),
        "## Command\n\n```bash\n" + shell_command(submission) + "\n```",
        "## Mounts\n\n" + table(("Host", "In the container"), mounts),
        "## Settings\n\n" + table(("Setting", "Value"), _setting_rows(job)),
    ]
    if notes := _notes(submission, root):
        parts.insert(2, "\n".join(f"- {note}" for note in notes))
    return "\n\n".join(parts) + "\n"


def describe_checks(checks: Iterable[Check]) -> list[dict[str, str]]:
    """Return the rows of a table artifact with the requested and the found values."""
    return [
        {"what": check.what, "asked": check.asked, "found": check.found, "": "ok" if check.holds else "DIFFERS"}
        for check in checks
    ]


def describe_end(heading: str, sentence: str, log: Path | None, words: str) -> str:
    """Return the page about a job's end: state, reason, and the last lines of its log."""
    shown = f"\n\nLog: `{log}`" if log else ""
    fence = "`" * max(3, _longest_run(words) + 1)
    return f"# {heading}\n\n{_plain(sentence)}{shown}\n\n{fence}text\n{words}\n{fence}\n"


def describe_training(log: TrainingLog, global_batch_size: int, curves: str | None, page: Path) -> str:
    """Return losses, speed and checkpoints. ``curves``: the plot as a data URI; ``page``: path of the report."""
    parts = ["# What the training logged", f"Report: `{page}`"]
    if curves:
        parts.append(f"![Loss and validation loss by step]({curves})")
    parts.append(table(("", ""), _training_rows(log, global_batch_size)))
    return "\n\n".join(parts) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with escaped cells."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows)])


def _sentence(submission: Submission, launched: bool) -> str:
    job = submission.job
    what = {"import-checkpoint": "convert the checkpoint", "train-model": "train"}[submission.kind]
    gpus = f"{gpus_of(job)} GPUs ({job.nodes} x {job.gpus_per_node})"
    if job.run_by == "allocation":
        how = f"srun starts {gpus_of(job)} tasks in the Slurm job that runs this flow, to {what} on {gpus}"
    else:
        how = f"Bridge's launcher submits one Slurm job to {what} on {gpus}, partition {job.partition}"
    return f"{how}." if launched else f"Nothing was submitted. With launch=true {how}."


def _cost_rows(job: GpuJobSettings) -> list[tuple[str, str]]:
    return [
        ("Nodes", str(job.nodes)),
        ("GPUs on each node", str(job.gpus_per_node)),
        ("GPUs", str(gpus_of(job))),
        ("Time limit", job.time_limit or f"{_LAUNCHER_HOURS}, the launcher's default"),
        ("Account", job.account),
        ("Partition", job.partition),
        ("Container image", job.container_image),
        ("Environment, by name", ", ".join(job.env) or "none"),
    ]


def _setting_rows(job: GpuJobSettings) -> list[tuple[str, str]]:
    return [(name, _value(value)) for name, value in job.model_dump(mode="json").items()]


def _value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _notes(submission: Submission, root: Path) -> list[str]:
    job = submission.job
    notes = []
    if not job.container_image.startswith("/"):
        notes.append(f"{job.container_image} has no leading /: it is pulled from a registry, not read from a file.")
    if isinstance(job, CheckpointSettings):
        notes.append(f"Topology of the conversion: {import_topology(job)}.")
        if job.tp * job.pp * job.ep != gpus_of(job):
            notes.append(
                f"TP x PP x EP is not {gpus_of(job)}, the number of GPUs: newer converters of Bridge refuse that."
            )
    if isinstance(job, TrainingSettings):
        notes += _training_notes(submission, job, root)
    return notes


def _training_notes(submission: Submission, training: TrainingSettings, root: Path) -> list[str]:
    places = training_places(root, training)
    topology = training_topology(training)
    newest = newest_checkpoint(places.save_dir) if training.resume else None
    start = "step 0" if newest is None else f"checkpoint {newest} of {places.save_dir}"
    return [
        f"The job sees the dataset as `{inside(places.dataset, submission.mounts)}`.",
        f"{training.max_steps} steps x {training.global_batch_size} = "
        f"{training.max_steps * training.global_batch_size} samples, from {start} on. "
        "Going on at the right sample needs a Bridge that keeps the data loader's state (its pull request 5637).",
        *([_REQUEUE] if training.run_by == "launcher" else []),
        f"Topology: {topology}." if topology else "Topology: the recipe's; it is checked after training.",
    ]


def _training_rows(log: TrainingLog, global_batch_size: int) -> list[tuple[str, str]]:
    last = log.iterations[-1] if log.iterations else None
    speed = log.samples_per_second(global_batch_size)
    tflops = [entry.tflops for entry in log.iterations[1:] if entry.tflops]
    return [
        ("Steps", f"{last.step} of {last.of}" if last else "none logged"),
        ("First and last loss", f"{log.iterations[0].loss:.4f}, {last.loss:.4f}" if last else "-"),
        *((f"Validation loss at {step}", f"{loss:.4f}") for step, loss in log.validation),
        ("Samples a second", f"{speed:,.1f}" if speed else "-"),
        ("Model TFLOP/s a GPU", f"{sum(tflops) / len(tflops):,.1f}" if tflops else "-"),
        ("Skipped, NaN steps", f"{sum(e.skipped for e in log.iterations)}, {sum(e.nan for e in log.iterations)}"),
        ("Checkpoints", ", ".join(map(str, log.checkpoints)) or "none"),
    ]


def _longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max((len(run) for run in "".join(c if c == "`" else " " for c in text).split()), default=0)


def _plain(text: str) -> str:
    return "".join(f"&#{ord(c)};" if c in "|<>&`*[]\\~#!" else c for c in text)
