"""A task that may raise; a module of its own, so that Dask's workers can import it."""

from pathlib import Path

from prefect import task
from pydantic import BaseModel, ConfigDict


class Job(BaseModel):
    """Append the job's number to ``folder/ran``, then raise or not."""

    model_config = ConfigDict(frozen=True)

    number: int
    folder: Path
    raises: bool = False


@task(name="raising", task_run_name="raising-{job.number}", persist_result=False)
def raising(job: Job) -> int:
    """Do the job's work."""
    with (job.folder / "ran").open("a", encoding="ascii") as file:
        file.write(f"{job.number}\n")
    if job.raises:
        raise ValueError("a fault of the program")
    return job.number
