"""The work pool's job template: Prefect's own fields, and all Slurm job variables in one model."""

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
}  # env has a place of its own
_SIGTERM = "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"


class SlurmVariables(JobVariables, BaseVariables):
    """What a work pool, a deployment or a run may set."""


class SlurmJobConfiguration(BaseJobConfiguration):
    """What the worker needs to make one flow run a Slurm job."""

    # What is refused may be a secret: variables of the job are given by value.
    model_config = ConfigDict(hide_input_in_errors=True)

    slurm: JobVariables = Field(default_factory=JobVariables, json_schema_extra={"template": _TEMPLATE})

    @classmethod
    async def resolve_for_flow_run(cls, flow_run: FlowRun, **arguments: Any) -> Self:
        """Read what the run's job needs from the API, patiently; see the base class for the arguments."""
        resolve = super().resolve_for_flow_run
        # The base class takes env out of the run that it is given: each try gets a copy.
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
        """Fill in what depends on the flow run; see the base class for the arguments."""
        super().prepare_for_flow_run(flow_run, deployment, flow, work_pool, worker_name, worker_id)
        # A process that gets SIGTERM cannot know why: it gives way, and the worker decides from Slurm's state.
        self.env.setdefault(_SIGTERM, "relinquish")

    @staticmethod
    def _base_flow_run_command() -> str:
        return attempt.COMMAND

    def write_files(self, flow_run_id: UUID) -> Path:
        """Make the folder of a new attempt with its script and environment file; gives the folder.

        Raises SettingsError if the log directory or a variable cannot be used.
        """
        folder = new_folder(self.slurm.log_dir, flow_run_id)
        write_environment(folder, {name: value for name, value in self.env.items() if value is not None})
        (folder / SCRIPT_FILE).write_text(render(self.slurm, self._job(folder)), encoding="utf-8")
        return folder

    def _job(self, folder: Path) -> Job:
        command = self.command or self._base_flow_run_command()
        return job_of(self.name or "flow-run", folder, command, self.slurm)


def job_of(name: str, folder: Path, command: str, variables: JobVariables) -> Job:
    """The job as the script needs it. The command is split as a shell would, and never run by one."""
    return Job(
        name=name,
        tag=tag_of(folder),
        folder=folder,
        command=tuple(shlex.split(command)),
        path=environment_path(variables),
    )
