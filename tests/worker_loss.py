"""A task that dies in chosen ways; a separate module, so that Dask's workers can import it."""

import os
import signal
from pathlib import Path
from typing import Literal

from prefect import task
from pydantic import BaseModel, ConfigDict

from tasks.running.groups import Group, do_each

Way = Literal["well", "killed always", "raises"]


class DyingJob(BaseModel):
    """Append the job's number to ``folder/ran``, then end in the given way."""

    model_config = ConfigDict(frozen=True)

    number: int
    folder: Path
    way: Way = "well"

    @property
    def name(self) -> str:
        """Name of the task run."""
        return str(self.number)

    def __str__(self) -> str:
        return f"job {self.number}"


@task(name="dying", task_run_name="dying-{job.number}", persist_result=False)
def dying(job: DyingJob) -> int:
    """Do the job's work, which may kill the process."""
    with (job.folder / "ran").open("a", encoding="ascii") as file:
        file.write(f"{job.number}\n")
    if job.way == "killed always":
        os.kill(os.getpid(), signal.SIGKILL)
    if job.way == "raises":
        raise ValueError("a fault of the program")
    return job.number


@task(name="dying-groups", task_run_name="dying-{job.name}", persist_result=False)
def dying_groups(job: Group[DyingJob]) -> int:
    """Do the work of all jobs of a group; skip finished jobs."""
    return do_each(job, lambda one: (one.folder / f"done-{one.number}").exists() or _do_once(one))


def _do_once(job: DyingJob) -> None:
    dying.fn(job)
    (job.folder / f"done-{job.number}").touch()
