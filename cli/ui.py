"""A Prefect server and a worker on this machine, for triggering the flows in a browser: ``datacomp-energon ui``."""

import signal
import subprocess
import sys
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.settings import PREFECT_API_URL
from pydantic import Field

from cli.command_line import DONE, FAILED, CommandLine, read_arguments, say
from cli.server import await_end, prefect_api
from flows.quickstart import quickstart
from tasks.contracts.errors import PipelineError

POOL = "local"
_STOP_SECONDS = 30


class UiCommandLine(CommandLine):
    """Start a Prefect server and a worker, deploy every flow, and stay until Ctrl-C."""

    port: int = Field(4200, ge=1024, le=65535, description="Port of the server on the loopback interface.")


def serve(port: int) -> int:
    """Run server and worker until one of them ends or Ctrl-C; returns the exit status.

    The configured API is used if there is one; otherwise a server of our own, with the history of earlier runs.
    """
    sys.stdout.write("Starting a server and a worker, which takes up to a minute.\n")
    sys.stdout.flush()
    with prefect_api(port=None if PREFECT_API_URL.value() else port) as api:
        _prefect("work-pool", "create", POOL, "--type", "process", "--overwrite")
        _prefect("--no-prompt", "deploy", "--name", f"*/{POOL}", "--prefect-file", str(_prefect_file()))
        _place_quickstart(Path.cwd())
        sys.stdout.write(f"\nPrefect UI: {api.ui}/deployments\nStop with Ctrl-C.\n")
        sys.stdout.flush()
        worker = subprocess.Popen([sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL])
        try:
            return worker.wait()
        finally:
            worker.terminate()
            await_end(worker, _STOP_SECONDS)


def _place_quickstart(folder: Path) -> None:
    """Let the form of the quickstart propose a data root in ``folder``: a deployed run has no folder of its own."""
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name(f"{quickstart.name}/{POOL}")
        root = folder / str(quickstart.parameters.properties["root"]["default"])
        client.update_deployment(deployment.id, DeploymentUpdate(parameters={"root": str(root)}))


def _prefect_file() -> Path:
    path = Path(__file__).resolve().parent.parent / "prefect.yaml"
    if not path.exists():
        raise PipelineError(f"{path} is not there: run this from a checkout that is installed with `pip install -e`")
    return path


def _prefect(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "prefect", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise PipelineError(f"prefect {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


def main(arguments: list[str]) -> None:
    """Read the command line, and serve."""
    port = read_arguments(UiCommandLine, arguments, "ui").port
    # A terminated program must take its worker along, as one that is interrupted does. The worker passes an interrupt
    # on, which those that a script starts in the background would ignore, and their children.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    try:
        raise SystemExit(serve(port))
    except KeyboardInterrupt:
        raise SystemExit(DONE) from None
    except PipelineError as error:
        say(str(error))
        raise SystemExit(FAILED) from None
