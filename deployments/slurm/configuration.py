"""The job configuration of the work pool: Prefect's own fields, and one field with all Slurm job variables."""

import logging
import shlex
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
from prefect.client.schemas.responses import DeploymentResponse
from prefect.workers.base import BaseJobConfiguration, BaseVariables
from pydantic import ConfigDict, Field

from deployments.slurm import attempt
from deployments.slurm.environment import write_environment
from deployments.slurm.patience import ask_before_submission
from deployments.slurm.script import Job, environment_path, render
from tasks.contracts.job_variables import JobVariables
from tasks.slurm.job_folder import SCRIPT_FILE, new_folder, tag_of

_TEMPLATE: dict[str, Any] = {
    name: "{{ " + name + " }}" for name in JobVariables.model_fields if name != "env"
}  # the base class has its own field for env
_SIGTERM = "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"


class SlurmVariables(JobVariables, BaseVariables):
    """The job variables that a work pool, a deployment or a run may set."""


class SlurmJobConfiguration(BaseJobConfiguration):
    """The configuration with which the worker submits one flow run as a Slurm job."""

    # An invalid value may be a secret, such as an environment variable.
    model_config = ConfigDict(hide_input_in_errors=True)

    slurm: JobVariables = Field(default_factory=JobVariables, json_schema_extra={"template": _TEMPLATE})

    @classmethod
    async def resolve_for_flow_run(cls, flow_run: FlowRun, **arguments: Any) -> Self:
        """Read the run's configuration from the API, with retries; see the base class for the arguments."""
        resolve = super().resolve_for_flow_run
        # The base class removes env from the given run, so each attempt gets a copy.
        return await ask_before_submission(
            lambda: resolve(flow_run.model_copy(deep=True), **arguments), logging.getLogger(__name__).warning
        )

    def prepare_for_flow_run(
        self,
        flow_run: FlowRun,
        deployment: DeploymentResponse | None = None,
        flow: Flow | None = None,
        work_pool: WorkPool | None = None,
        worker_name: str | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        """Set the values that depend on the flow run; see the base class for the arguments."""
        super().prepare_for_flow_run(flow_run, deployment, flow, work_pool, worker_name, worker_id)
        # The process does not know why it got SIGTERM. It exits, and the worker decides from Slurm's state.
        self.env.setdefault(_SIGTERM, "relinquish")

    @staticmethod
    def _base_flow_run_command() -> str:
        return attempt.COMMAND

    def write_files(self, flow_run_id: UUID) -> Path:
        """Create the folder of a new attempt with its script and environment file; return the folder.

        Raises SettingsError if the log directory or a variable is invalid.
        """
        folder = new_folder(self.slurm.log_dir, flow_run_id)
        write_environment(folder, {name: value for name, value in self.env.items() if value is not None})
        (folder / SCRIPT_FILE).write_text(render(self.slurm, self._job(folder)), encoding="utf-8")
        return folder

    def _job(self, folder: Path) -> Job:
        command = self.command or self._base_flow_run_command()
        return job_of(self.name or "flow-run", folder, command, self.slurm)


def job_of(name: str, folder: Path, command: str, variables: JobVariables) -> Job:
    """Return the job for the script. The command is split like a shell does, but never run by a shell."""
    return Job(
        name=name,
        tag=tag_of(folder),
        folder=folder,
        command=tuple(shlex.split(command)),
        path=environment_path(variables),
    )
