"""The queue as users see it, the request as the job sees it, and requests that Slurm rejects."""

from pathlib import Path

import pytest
from prefect.client.schemas.objects import FlowRun

from tests.slurm.pool import Pool


def test_a_gpu_job_sees_eight_devices_and_nothing_of_the_workers_slurm_variables(pool: Pool, shared: Path) -> None:
    run = pool.end(
        pool.submit(
            "show-job",
            {"folder": str(shared)},
            partition="gpu",
            gpus_per_node=8,
            gpu_type="h100",
            cpus_per_task=4,
            exclusive=True,
        )
    )
    assert run.state and run.state.is_completed()
    seen = dict(line.partition("=")[::2] for line in (shared / "environment").read_text().splitlines())
    assert seen["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"
    assert seen["SLURM_CPUS_PER_TASK"] == seen["SRUN_CPUS_PER_TASK"] == "4"
    assert seen["SLURM_CONF"] == str(pool.slurm.conf)
    assert "SLURM_FROM_THE_WORKER" not in seen and "SECRET_OF_THE_WORKER" not in seen


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"extra_directives": ["--hold"]}, "JobHeldUser: it is held; release it with: scontrol release"),
        ({"time_limit": "3-00:00:00"}, "PartitionTimeLimit: will never start: its time limit is above the partition's"),
        ({"cpus_per_task": 5000}, "PartitionConfig: will never start: what it asks for is outside"),
        ({"nodes": 3}, "PartitionNodeLimit: will never start: it asks for more nodes"),
        ({"dependency": "after:{blocker}"}, "Dependency: it waits for the jobs"),
        ({"extra_directives": ["--begin=now+3600"]}, "BeginTime: its start time has not come yet"),
    ],
)
def test_pending_reasons_in_words(pool: Pool, variables: dict[str, object], words: str) -> None:
    held = pool.slurm.command("sbatch", "--parsable", "--hold", "--wrap=true", "--output=/dev/null").strip()
    variables = {k: v.format(blocker=held) if isinstance(v, str) else v for k, v in variables.items()}
    run_id = pool.command("true", **variables)
    run = pool.wait(run_id, lambda run: words in _message(run) or "cannot become a Slurm job" in _message(run))
    # From 24.11 on, Slurm rejects some requests that no node could satisfy.
    newer = "slurm-wlm 22" not in pool.slurm.command("sinfo", "-V")
    assert words in _message(run) or (newer and "will never start" in words)
    pool.cancel(run_id)
    pool.end(run_id)
    pool.slurm.command("scancel", held)


def _message(run: FlowRun) -> str:
    return (run.state and run.state.message) or ""


def test_resources_and_then_running(pool: Pool) -> None:
    blocker = pool.slurm.command(
        "sbatch", "--parsable", "--exclusive", "--nodelist=c1", "--wrap=sleep 300", "--output=/dev/null"
    ).strip()
    run_id = pool.command("true", nodelist="c1")
    pool.pending(run_id, "Resources: it waits for nodes or memory")
    pool.slurm.command("scancel", blocker)
    assert pool.end(run_id).state.is_crashed()  # `true` reports no final state to Prefect
    assert "told no end" in str(pool.read(run_id).state.message)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"partition": "nowhere"}, "invalid partition specified"),
        ({"constraint": "abacus"}, "Invalid feature specification"),
        ({"gpus_per_node": 9, "partition": "gpu"}, "Requested node configuration is not available"),
        ({"log_dir": "/proc/nowhere"}, "log_dir /proc/nowhere: cannot make"),
        ({"drop_directives": ["memory"]}, "memory: not a generated directive"),
        ({"mem": "1G", "mem_per_cpu": "1G"}, "mem and mem_per_cpu exclude each other"),
    ],
)
def test_what_is_refused_is_crashed_with_the_reason(pool: Pool, variables: dict[str, object], words: str) -> None:
    run = pool.end(pool.command("true", **variables))
    assert run.state and run.state.is_crashed()
    assert words in str(run.state.message)
    assert all(pool.job_state(job) == "FAILED" for job in pool.jobs_of(run.id))
    assert "Traceback" not in pool.logs(run.id) or "ValidationError" in str(run.state.message)


def test_a_working_directory_that_the_node_cannot_open(pool: Pool) -> None:
    run = pool.end(pool.command("true", extra_directives=["--output=/proc/nowhere/log"]))
    assert run.state and run.state.is_crashed()
    assert "cannot be opened on the node" in str(run.state.message)


HOSTILE = [
    "$(touch {0}/pwned)",
    "`touch {0}/pwned`",
    "'; touch {0}/pwned; '",
    '" ; touch {0}/pwned #',
    "a\ntouch {0}/pwned",
    "x #SBATCH --hold",
    "\\",
    "réseau 网络 ☃",
    "-----",
    "JobState=FAILED ExitCode=9:9",
]


def test_hostile_run_names_and_values_run_nothing(pool: Pool, shared: Path) -> None:
    runs = []
    for number, text in enumerate(HOSTILE):
        evil, folder = text.format(shared), shared / str(number)
        folder.mkdir()
        runs.append(
            pool.submit(
                "show-job",
                {"folder": str(folder)},
                name=evil,
                comment=evil.replace("\n", " "),
                env={"EVIL": evil, "PYTHONPATH": pool.python_path},
            )
        )
    for number, (run_id, text) in enumerate(zip(runs, HOSTILE, strict=True)):
        run = pool.end(run_id, 180)
        assert run.state and run.state.is_completed(), text
        assert f"EVIL={text.format(shared)}" in (shared / str(number) / "environment").read_text()
    assert not (shared / "pwned").exists()
