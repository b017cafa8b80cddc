"""Create a work pool and the deployment of every flow on it."""

from functools import partial
from pathlib import Path
from typing import Any, Literal

import yaml
from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.exceptions import ObjectNotFound
from prefect.utilities.callables import parameter_schema
from prefect.utilities.importtools import import_object
from prefect.workers.process import ProcessWorker

from deployments.patience import PATIENCE_SECONDS, Report, ask_with_patience
from deployments.work_pools import put_pool
from tasks.contracts.cluster_profile import load_profile
from tasks.contracts.errors import PipelineError, SettingsError

PoolName = Literal["local", "slurm"]
DEFAULT_CLUSTER = "slurm"


def deploy(pool: PoolName, report: Report, cluster: str | None = None, seconds: float = PATIENCE_SECONDS) -> None:
    """Create or update the work pool, then its deployments; report each. Raises PipelineError."""
    create_pool(pool, report, cluster, seconds)
    create_deployments(pool, report, seconds)


def create_pool(pool: PoolName, report: Report, cluster: str | None = None, seconds: float = PATIENCE_SECONDS) -> None:
    """Create the work pool; update one that exists only if a cluster profile is given. Raises PipelineError."""
    kind, template = _pool_template(pool, cluster)
    update = cluster is not None
    report(ask_with_patience(lambda client: put_pool(client, pool, kind, template, update), report, seconds))


def create_deployments(pool: PoolName, report: Report, seconds: float = PATIENCE_SECONDS) -> None:
    """Create or update a deployment of every flow that ``prefect.yaml`` declares on the pool. Raises PipelineError."""
    for declared in declarations(pool):
        flow: Flow[..., Any] = import_object(declared["entrypoint"])
        done = ask_with_patience(partial(_put_deployment, flow, declared), report, seconds)
        report(f"Deployment {flow.name}/{declared['name']}: {done}.")


def declarations(pool: str) -> list[dict[str, Any]]:
    """Return the deployments that ``prefect.yaml`` declares on a work pool. Raises PipelineError without the file."""
    path = Path(__file__).resolve().parent.parent / "prefect.yaml"
    try:
        declared = yaml.safe_load(path.read_text(encoding="utf-8"))["deployments"]
    except FileNotFoundError:
        raise PipelineError(
            f"{path} is missing: run this from a checkout that is installed with `pip install -e`"
        ) from None
    return [deployment for deployment in declared if deployment["work_pool"]["name"] == pool]


def _pool_template(pool: PoolName, cluster: str | None) -> tuple[str, dict[str, Any]]:
    if pool == "local":
        if cluster is not None:
            raise SettingsError(f"--cluster {cluster}: a profile's job variables are for --pool slurm; leave it out")
        return ProcessWorker.type, ProcessWorker.get_default_base_job_template()
    # Imported here: `ui` does not need the Slurm modules.
    from deployments.slurm.pool import job_template
    from deployments.slurm.worker import SlurmWorker

    return SlurmWorker.type, job_template(load_profile(cluster or DEFAULT_CLUSTER).slurm)


def _put_deployment(flow: Flow[..., Any], declared: dict[str, Any], client: SyncPrefectClient) -> str:
    """Create or update the deployment; return which of the two was done.

    An update keeps what users configure on the server: schedules, limits, default parameters and the paused state.
    """
    pool = declared["work_pool"]
    content = {
        "description": declared["description"],
        "tags": declared["tags"],
        "entrypoint": declared["entrypoint"],
        "work_pool_name": pool["name"],
        "job_variables": pool.get("job_variables", {}),
        "version": flow.version,
        "parameter_openapi_schema": parameter_schema(flow).model_dump(exclude_unset=True),
        "enforce_parameter_schema": True,
        "pull_steps": [],
    }
    try:
        known = client.read_deployment_by_name(f"{flow.name}/{declared['name']}")
    except ObjectNotFound:
        client.create_deployment(client.create_flow_from_name(flow.name), name=declared["name"], **content)
        return "created"
    client.update_deployment(known.id, DeploymentUpdate(**content))
    return "updated"
