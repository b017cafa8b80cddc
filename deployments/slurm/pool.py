"""The work pool on the server: its job template, with a cluster profile's values as defaults."""

from typing import Any

from prefect.settings import PREFECT_API_URL

from deployments.patience import Report, ask_with_patience
from deployments.slurm.worker import SlurmWorker
from deployments.work_pools import put_pool
from tasks.contracts.errors import PipelineError
from tasks.contracts.job_variables import JobVariables


def job_template(defaults: JobVariables) -> dict[str, Any]:
    """Return the pool's base job template, with the set values of ``defaults`` as defaults of the variables."""
    template = SlurmWorker.get_default_base_job_template()
    for name, value in defaults.model_dump(mode="json", exclude_unset=True).items():
        template["variables"]["properties"][name]["default"] = value
    return template


def create_pool(name: str, defaults: JobVariables, report: Report) -> str:
    """Create the pool, or update its template; return a summary. Raises PipelineError."""
    template = job_template(defaults)
    if not PREFECT_API_URL.value():
        raise PipelineError("PREFECT_API_URL is not set: name the server that the compute nodes reach")
    return ask_with_patience(lambda client: put_pool(client, name, SlurmWorker.type, template, update=True), report)
