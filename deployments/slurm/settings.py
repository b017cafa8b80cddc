"""Settings of a worker process, as environment variables. Those of one run are in tasks/contracts/job_variables.py."""

from typing import ClassVar

from prefect.settings.base import PrefectBaseSettings, build_settings_config
from pydantic import Field
from pydantic_settings import SettingsConfigDict


class SlurmWorkerSettings(PrefectBaseSettings):
    """Set as ``PREFECT_INTEGRATIONS_SLURM_WORKER_<NAME>``, or in a Prefect profile or ``prefect.toml``."""

    model_config: ClassVar[SettingsConfigDict] = build_settings_config(("integrations", "slurm", "worker"))

    poll_seconds: float = Field(2, gt=0, description="Shortest time between two looks at the queue.")
    poll_seconds_max: float = Field(30, gt=0, description="Longest time between two looks at the queue.")
    lost_after_polls: int = Field(
        3, ge=1, description="Looks in a row that must not find a job before it counts as lost."
    )
    command_timeout_seconds: float = Field(60, gt=0, description="Time that one Slurm command may take.")
    submit_patience_seconds: float = Field(
        3600, ge=0, description="How long a submission is tried again while Slurm does not answer."
    )
    submit_concurrency: int = Field(4, ge=1, description="Calls of sbatch at a time.")
    cancel_grace_seconds: float = Field(
        30, ge=0, description="Time that a running flow has to end by itself after Cancel; then its job is cancelled."
    )
    orphan_seconds: float = Field(
        300,
        ge=0,
        description="Age at which a run that was claimed, but never became a job, is scheduled again.",
    )
