"""Stand-in for Megatron-Bridge's two launchers: it parses as strictly as the real ones and submits to a real Slurm.

Written from the documented flags of setup_conversion.py and setup_experiment.py. The jobs run without a container.
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import behaviour

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Parse, render, and submit unless it is a dry run."""
    command, arguments = sys.argv[1], sys.argv[2:]
    if os.environ.get("VIRTUAL_ENV") or any(n.startswith(("PREFECT_", "SLURM_JOB", "SBATCH_")) for n in os.environ):
        sys.exit("launcher: the environment of the caller leaked in")
    options, program = _convert(arguments) if command == "convert" else _train(arguments)
    script = _script(options, program)
    print("Forwarded environment variables:", ", ".join(options.env) or "none", flush=True)
    if options.submission_dry_run:
        print(script)
        return
    while behaviour.wanted("submit") == "wait":
        time.sleep(0.1)
    path = HERE / f"{command}.sbatch"
    path.write_text(script)
    submitted = subprocess.run(["sbatch", "--requeue", "--parsable", path], stdout=subprocess.PIPE, text=True)
    if submitted.returncode:
        sys.exit(1)
    job = submitted.stdout.strip()
    if home := os.environ.get("NEMORUN_HOME"):
        # NeMo-Run does this without accounting: it records the job, then fails before it has printed its id.
        with (Path(home) / ".slurm_jobs").open("a") as notes:
            notes.write(f"{job} = log*,{HERE},LocalTunnel,{{}}\n")
        sys.exit("sacct: error: Slurm accounting storage is disabled")
    print(f"\nExperiment Status for {command}\n\nTask 0: {command}\n- Status: SUBMITTED\n- Job id: {job}", flush=True)
    if command == "convert":
        _wait(job)


def _execution() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--gpus-per-node", type=int, required=True)
    parser.add_argument("--account", required=True)
    parser.add_argument("--partition", required=True)
    parser.add_argument("--container-image", required=True)
    parser.add_argument("--time", default="04:00:00")
    parser.add_argument("--no-gpu-resource-request", action="store_true")
    parser.add_argument("--mount", action="append", default=[])
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--srun-arg", action="append", default=[])
    parser.add_argument("--submission-dry-run", "--dry-run", action="store_true")
    return parser


def _convert(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    if arguments[:1] != ["import"]:
        sys.exit("launcher: only import")
    parser = _execution()
    parser.add_argument("--executor", choices=["slurm"], required=True)
    parser.add_argument("--device", choices=["gpu"], required=True)
    _conversion(parser)
    options = parser.parse_args(arguments[1:])
    _check(options)
    if options.nodes * options.gpus_per_node % (options.tp * options.pp):
        sys.exit("launcher: nodes*gpus-per-node must be divisible by TP*PP")
    if options.nodes * options.gpus_per_node % (options.etp * options.ep * options.pp):
        sys.exit("launcher: nodes*gpus-per-node must be divisible by ETP*EP*PP")
    program = ["scripts/conversion/run_conversion.py", "import", "--device", "gpu"]
    for name in ("hf-model", "hf-revision", "megatron-path", "torch-dtype", "tp", "pp", "ep", "etp"):
        program += [f"--{name}", str(getattr(options, name.replace("-", "_")))]
    return options, program


def _conversion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hf-model", required=True)
    parser.add_argument("--hf-revision", required=True)
    parser.add_argument("--megatron-path", required=True)
    parser.add_argument("--torch-dtype", choices=["bfloat16", "float16", "float32"], required=True)
    for name in ("--tp", "--pp", "--ep", "--etp"):
        parser.add_argument(name, type=int, required=True)


def _train(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    options, program = _execution().parse_known_args(arguments)
    _check(options)
    return options, ["scripts/training/run_recipe.py", *program]


def _check(options: argparse.Namespace) -> None:
    for name in options.env:
        if "=" in name or name not in os.environ:
            sys.exit(f"launcher: --env {name} is not the name of a variable that is set")
    for mount in options.mount:
        host, _, container = mount.partition(":")
        if not Path(host).is_dir() or ":" in container:
            sys.exit(f"launcher: invalid --mount {mount}")


def _script(options: argparse.Namespace, program: list[str]) -> str:
    log = HERE / "log-vision-vision.job"
    directives = {
        "account": options.account,
        "partition": options.partition,
        "nodes": options.nodes,
        "ntasks-per-node": options.gpus_per_node,
        **({} if options.no_gpu_resource_request else {"gpus-per-node": options.gpus_per_node}),
        "time": options.time,
        "exclusive": None,
        "output": f"{HERE}/sbatch_vision-vision.job_%j.out",
        "open-mode": "append",
        "export": ",".join(["PATH", "SLURM_CONF", *options.env]),
    }
    lines = [f"#SBATCH --{name}" + ("" if value is None else f"={value}") for name, value in directives.items()]
    run = shlex.join([sys.executable, str(HERE / program[0]), *program[1:]])
    step = f"srun --output={log}_%j_${{SLURM_RESTART_COUNT:-0}}.out {shlex.join(options.srun_arg)} {run}"
    return "\n".join(["#!/bin/bash", *lines, "echo batch script of $SLURM_JOB_ID", step]) + "\n"


def _wait(job: str) -> None:
    # Wait forever if the test asks for it: NeMo-Run does this without accounting.
    while (
        behaviour.wanted("launcher") or subprocess.run(["squeue", "-h", "-j", job], capture_output=True).stdout.strip()
    ):
        time.sleep(0.3)


if __name__ == "__main__":
    main()
