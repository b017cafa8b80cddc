"""A Slurm work pool on a real Prefect server, with workers that can be killed and restarted."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import LogFilter
from prefect.client.schemas.objects import FlowRun
from prefect.states import Cancelling, Completed

from deployments.slurm.pid import JobPid
from deployments.slurm.worker import SlurmWorker
from tests.slurm import probes
from tests.slurm.cluster import SlurmCluster

ROOT = Path(__file__).resolve().parents[2]
QUICK = {
    "PREFECT_INTEGRATIONS_SLURM_WORKER_POLL_SECONDS": "0.3",
    "PREFECT_INTEGRATIONS_SLURM_WORKER_POLL_SECONDS_MAX": "2",
    "PREFECT_INTEGRATIONS_SLURM_WORKER_CANCEL_GRACE_SECONDS": "3",
    "PREFECT_INTEGRATIONS_SLURM_WORKER_ORPHAN_SECONDS": "1",
    "PREFECT_WORKER_QUERY_SECONDS": "1",
    "PREFECT_WORKER_HEARTBEAT_SECONDS": "3",
}


@dataclass
class Pool:
    """A work pool of a cluster; ``folder`` is shared by the worker and the jobs."""

    name: str
    url: str
    slurm: SlurmCluster
    folder: Path
    python_path: str = str(ROOT)
    worker: subprocess.Popen[bytes] | None = None
    deployments: dict[str, UUID] = field(default_factory=dict)

    def create(self) -> None:
        """Create the pool and one deployment for each probe."""
        with self.client() as client:
            template = SlurmWorker.get_default_base_job_template()
            client.create_work_pool(WorkPoolCreate(name=self.name, type="slurm-sbatch", base_job_template=template))
            for probe in (probes.nap, probes.fall, probes.show_job, probes.refuse, probes.parent):
                flow_id = client.create_flow(probe)
                self.deployments[probe.name] = client.create_deployment(
                    flow_id,
                    name=self.name,
                    work_pool_name=self.name,
                    entrypoint=f"tests.slurm.probes.{probe.fn.__name__}",
                    pull_steps=[],
                    job_variables={"log_dir": str(self.folder / "jobs"), "env": {"PYTHONPATH": self.python_path}},
                )

    def client(self) -> SyncPrefectClient:
        """Return a client of the server."""
        return get_client(sync_client=True)

    def start_worker(self, name: str = "first", **environment: str) -> None:
        """Start a worker as a user would; it finds the worker type through the entry point."""
        log = (self.folder / "worker.log").open("ab")
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", self.name]
        self.worker = subprocess.Popen(
            [*command, "--name", f"{name}-of-{self.name}", "--type", "slurm-sbatch"],
            cwd=ROOT,
            env={
                **os.environ,
                **self.slurm.environment,
                "PATH": f"{Path(sys.executable).parent}:{self.slurm.environment['PATH']}",
                "PYTHONPATH": str(ROOT),
                "PREFECT_API_URL": self.url,
                "SLURM_FROM_THE_WORKER": "must not reach a job",
                "SECRET_OF_THE_WORKER": "must not reach a job",
                **QUICK,
                **environment,
            },
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def kill_worker(self) -> None:
        """SIGKILL the worker, as a crash or a reboot would."""
        if self.worker:
            os.killpg(self.worker.pid, signal.SIGKILL)
            self.worker.wait()
            self.worker = None

    def submit(self, flow: str, parameters: dict[str, Any], name: str | None = None, **variables: Any) -> UUID:
        """Create a run of a probe's deployment."""
        with self.client() as client:
            run = client.create_flow_run_from_deployment(
                self.deployments[flow], parameters=parameters, name=name, job_variables=variables
            )
        return run.id

    def command(self, command: str, **variables: Any) -> UUID:
        """Create a run whose job executes ``command`` instead of the flow: it never reaches the API."""
        return self.submit("nap", {"folder": "unused"}, command=command, **variables)

    def until(self, file: Path, code: int, **variables: Any) -> UUID:
        """Create a run whose job ends with ``code`` when ``file`` exists."""
        return self.command(f"bash -c 'until [ -e {file} ]; do sleep 0.2; done; exit {code}'", **variables)

    def attempts(self, run_id: UUID) -> int:
        """Count the jobs that were created for a run, including those that slurmctld has forgotten."""
        return len(list((self.folder / "jobs" / str(run_id)).iterdir()))

    def read(self, run_id: UUID) -> FlowRun:
        """Return the run in its current state."""
        with self.client() as client:
            return client.read_flow_run(run_id)

    def wait(self, run_id: UUID, until: Callable[[FlowRun], bool], seconds: float = 90) -> FlowRun:
        """Wait until ``until`` holds for a run; return the run."""
        deadline = time.monotonic() + seconds
        while True:
            run = self.read(run_id)
            if until(run):
                return run
            if time.monotonic() > deadline:
                told = (self.folder / "worker.log").read_text()[-6000:]
                raise TimeoutError(f"{run.state!r} after {seconds} s; the worker said:\n{told}")
            time.sleep(0.2)

    def until_true(self, holds: Callable[[], bool], seconds: float = 90) -> None:
        """Wait until ``holds`` returns true."""
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"still not true after {seconds} s")
            time.sleep(0.2)

    def end(self, run_id: UUID, seconds: float = 90) -> FlowRun:
        """Wait until the run is in a final state; return the run."""
        return self.wait(run_id, lambda run: run.state is not None and run.state.is_final(), seconds)

    def running(self, run_id: UUID, seconds: float = 90) -> int:
        """Wait until the run's job is RUNNING in Slurm; return the job's id."""
        run = self.wait(run_id, lambda run: run.infrastructure_pid is not None, seconds)
        job_id = JobPid.parse(run.infrastructure_pid or "").job_id
        self.wait(run_id, lambda _: self.job_state(job_id) == "RUNNING", seconds)
        return job_id

    def pending(self, run_id: UUID, text: str, seconds: float = 90) -> FlowRun:
        """Wait until the message of the run's state contains ``text``; return the run."""
        return self.wait(run_id, lambda run: run.state is not None and text in (run.state.message or ""), seconds)

    def cancel(self, run_id: UUID) -> None:
        """Cancel the run as the UI does."""
        with self.client() as client:
            client.set_flow_run_state(run_id, Cancelling())

    def complete(self, run_id: UUID) -> None:
        """Force the run to Completed, as a user can."""
        with self.client() as client:
            client.set_flow_run_state(run_id, Completed(), force=True)

    def job_log(self, run_id: UUID) -> str:
        """Return the log of the run's first job."""
        return (self.folder / "jobs" / str(run_id) / "1" / "job.log").read_text()

    def job_state(self, job_id: int) -> str:
        """Return a job's state as squeue prints it; empty if the job is unknown."""
        return self.slurm.command("squeue", "-h", "-t", "all", "-j", str(job_id), "-o", "%T", check=False).strip()

    def exit_code(self, job_id: int) -> str:
        """Return a job's exit code and signal as ``scontrol`` prints them: ``3:0``."""
        shown = self.slurm.command("scontrol", "-o", "show", "job", str(job_id))
        return next(word.removeprefix("ExitCode=") for word in shown.split() if word.startswith("ExitCode="))

    def jobs_of(self, run_id: UUID) -> list[int]:
        """Return the ids of all jobs that were submitted for a run."""
        rows = self.slurm.command("squeue", "-h", "-t", "all", "-O", "JobID:20|,Command:1000").splitlines()
        return sorted(int(row.split("|")[0]) for row in rows if str(run_id) in row)

    def logs(self, run_id: UUID) -> str:
        """Return the run's log in the UI."""
        with self.client() as client:
            response = client.read_logs(LogFilter.model_validate({"flow_run_id": {"any_": [run_id]}}), limit=200)
        return "\n".join(log.message for log in response)

    def history(self, run_id: UUID) -> list[str]:
        """Return the names of all states of the run."""
        with self.client() as client:
            return [str(state.name) for state in client.read_flow_run_states(run_id)]
