"""``datacomp-energon deploy --pool local``: create a work pool and the deployment of every flow on it."""

from prefect.settings import PREFECT_API_URL
from pydantic import Field

from cli.command_line import INTERRUPTED, CommandLine, exit_with_message, read_arguments
from deployments.deploy import DEFAULT_CLUSTER, PoolName, deploy
from deployments.patience import PATIENCE_SECONDS, print_line
from tasks.contracts.errors import SettingsError


class DeployCommandLine(CommandLine):
    """Create a work pool and a deployment of every flow on it, or bring both up to date."""

    pool: PoolName = Field(description="Work pool: local (processes of this machine) or slurm (Slurm jobs).")
    cluster: str | None = Field(
        None,
        description="Cluster profile whose slurm section gives the pool's defaults: the name of a shipped one, or a "
        f"YAML file; null: {DEFAULT_CLUSTER} for a new pool, while one that exists keeps its own.",
    )
    patience_seconds: float = Field(
        PATIENCE_SECONDS, ge=0, description="How long the Prefect server may be down or busy before this fails."
    )


def main(arguments: list[str]) -> None:
    """Deploy to the configured server and print each step. Exit with 2 for bad arguments, 1 for a failure."""
    options = read_arguments(DeployCommandLine, arguments, "deploy")
    try:
        with exit_with_message():
            if not PREFECT_API_URL.value():
                raise SettingsError("PREFECT_API_URL is not set: name the server to deploy to, as http://host:4200/api")
            deploy(options.pool, print_line, options.cluster, options.patience_seconds)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
