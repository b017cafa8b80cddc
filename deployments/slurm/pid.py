"""The identifier of a Slurm job in Prefect: ``cluster:job id``, unique even at a site with several clusters."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class JobPid:
    """The ``infrastructure_pid`` of a flow run on Slurm."""

    cluster: str
    job_id: int

    def __str__(self) -> str:
        return f"{self.cluster}:{self.job_id}"

    @classmethod
    def parse(cls, text: str) -> "JobPid":
        """Parse an ``infrastructure_pid``. Raises ValueError if it does not have the form ``cluster:job id``."""
        found = re.fullmatch(r"([^:\s]+):(\d+)", text)
        if not found:
            raise ValueError(f"{text!r} names no Slurm job; expected 'cluster:job id', as 'alpha:4711'")
        return cls(found[1], int(found[2]))
