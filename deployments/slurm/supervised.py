"""A watched job: one worker's record of a job and its flow run."""

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from deployments.slurm.pid import JobPid
from tasks.contracts.job_variables import JobVariables


@dataclass
class Supervised:
    """A job, its flow run, and what the worker has reported so far."""

    run: FlowRun
    pid: JobPid
    folder: Path | None
    variables: JobVariables
    told: str = ""
    told_at: float = 0
    restarts: int = 0
    cancelling_since: float | None = None
    cancel_told: str = ""

    @property
    def flow_run_id(self) -> UUID:
        """Id of the flow run."""
        return self.run.id
