"""The work pool on the server: its job template, with a cluster profile's values as defaults."""

from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL

from deployments.slurm.worker import SlurmWorker
from tasks.contracts.errors import PipelineError
from tasks.contracts.job_variables import JobVariables


def job_template(defaults: JobVariables) -> dict[str, Any]:
    """The pool's base job template; what ``defaults`` leaves out keeps the default of the variable."""
    template = SlurmWorker.get_default_base_job_template()
    for name, value in defaults.model_dump(mode="json", exclude_unset=True).items():
        template["variables"]["properties"][name]["default"] = value
    return template


def create_pool(name: str, defaults: JobVariables) -> str:
    """Create the pool, or bring its template up to date; says what was done. Raises PipelineError."""
    template = job_template(defaults)
    if not PREFECT_API_URL.value():
        raise PipelineError("PREFECT_API_URL is not set: name the server that the compute nodes reach")
    try:
        with get_client(sync_client=True) as client:
            try:
                pool = client.read_work_pool(name)
            except ObjectNotFound:
                client.create_work_pool(WorkPoolCreate(name=name, type=SlurmWorker.type, base_job_template=template))
                return f"Created work pool {name!r} of type {SlurmWorker.type!r}."
            if pool.type != SlurmWorker.type:
                raise PipelineError(f"work pool {name!r} is of type {pool.type!r}; choose another name")
            client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))
            return f"Updated the job variables of work pool {name!r}."
    except (httpx.TransportError, PrefectHTTPStatusError) as error:
        raise PipelineError(f"the server at {PREFECT_API_URL.value()} does not do it: {error}") from None
