"""Work pools on the Prefect server."""

from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.exceptions import ObjectAlreadyExists

from tasks.contracts.errors import PipelineError


def put_pool(client: SyncPrefectClient, name: str, kind: str, template: dict[str, Any], update: bool) -> str:
    """Create a work pool, or update its job variables if ``update``; return what was done, in a sentence.

    Raises PipelineError if a pool of that name is of another type.
    """
    try:
        client.create_work_pool(WorkPoolCreate(name=name, type=kind, base_job_template=template))
        return f"Created work pool {name!r} of type {kind!r}."
    except ObjectAlreadyExists:
        known = client.read_work_pool(name)
    if known.type != kind:
        raise PipelineError(
            f"work pool {name!r} exists, but is of type {known.type!r}, not {kind!r}, so its workers cannot run these "
            f"deployments; delete it with `prefect work-pool delete {name}`, or use another server"
        )
    if not update:
        return f"Work pool {name!r} of type {kind!r} exists, and stays as it is."
    client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))
    return f"Updated the job variables of work pool {name!r}."
