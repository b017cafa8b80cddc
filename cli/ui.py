"""A Prefect server and a worker on this machine, to run flows from a browser: ``datacomp-energon ui``."""

import shlex
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Final

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.settings import PREFECT_API_URL
from pydantic import Field

from cli.command_line import BAD_ARGUMENTS, DONE, FAILED, CommandLine, read_arguments, say
from cli.server import await_end, prefect_api
from deployments.deploy import create_deployments, create_pool
from deployments.patience import ask_with_patience, print_line
from flows.quickstart import quickstart
from tasks.contracts.errors import PipelineError
from tasks.contracts.exit_status import describe_exit

POOL: Final = "local"
_STOP_SECONDS = 30
_WORKER = f"ui on {socket.gethostname()}"
_WORKER_COMMAND = [sys.executable, "-m", "prefect", "worker", "start"]


class UiCommandLine(CommandLine):
    """Start a Prefect server and a worker, deploy every flow, and stay until Ctrl-C."""

    port: int = Field(4200, ge=1024, le=65535, description="Port of the server on the loopback interface.")
    allowed_host: list[str] = Field(
        [], description="Further host name that the server may be asked by (a proxy's); loopback names always may."
    )


def serve(port: int, allowed_hosts: list[str]) -> int:
    """Run server and worker until either ends or Ctrl-C; return the exit status.

    The configured API is used if there is one; otherwise our own server, with the history of earlier runs.
    """
    print_line("Starting a server and a worker, which takes up to a minute.")
    with prefect_api(port=None if PREFECT_API_URL.value() else port, allowed_hosts=allowed_hosts) as api:
        print_line("The server is up.")
        create_pool(POOL, print_line)
        before = ask_with_patience(_heartbeat, print_line)
        # The worker needs seconds for its imports; meanwhile the deployments are created.
        worker = subprocess.Popen([*_WORKER_COMMAND, "--pool", POOL, "--name", _WORKER])
        try:
            create_deployments(POOL, print_line)
            ask_with_patience(_place_quickstart, print_line)
            _wait_for_worker(worker, before)
            print_line(f"Worker {_WORKER} is ready.")
            if api.environment_file:
                print_line(f"For another shell: . {shlex.quote(str(api.environment_file))}")
                print_line("The link opens once; then the browser remembers.")
            print_line(f"\nPrefect UI: {api.link}\nStop with Ctrl-C.")
            return worker.wait()
        finally:
            worker.terminate()
            await_end(worker, _STOP_SECONDS)


def _place_quickstart(client: SyncPrefectClient) -> None:
    """Make the current folder's data root the default of the quickstart's form: a deployed run has no such folder."""
    deployment = client.read_deployment_by_name(f"{quickstart.name}/{POOL}")
    root = Path.cwd() / str(quickstart.parameters.properties["root"]["default"])
    client.update_deployment(deployment.id, DeploymentUpdate(parameters={"root": str(root)}))


def _heartbeat(client: SyncPrefectClient) -> datetime | None:
    """Return this host's worker's last heartbeat on the server, None if there is none."""
    known = {worker.name: worker.last_heartbeat_time for worker in client.read_workers_for_work_pool(POOL)}
    return known.get(_WORKER)


def _wait_for_worker(process: subprocess.Popen[bytes], before: datetime | None) -> None:
    """Wait for a heartbeat newer than ``before``. Raises PipelineError if the worker ends first."""
    while ask_with_patience(_heartbeat, print_line) == before:
        if process.poll() is not None:
            raise PipelineError(f"the worker {describe_exit(process.returncode)}; its last words stand above")
        time.sleep(0.2)


def main(arguments: list[str]) -> None:
    """Read the command line and run server and worker."""
    options = read_arguments(UiCommandLine, arguments, "ui")
    if PREFECT_API_URL.value() and options.model_fields_set:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(options.model_fields_set))
        say(f"{given} is for a server of our own, but PREFECT_API_URL names another: leave out one of them")
        raise SystemExit(BAD_ARGUMENTS)
    # Stop the worker on SIGTERM too. A program that a script starts in the background would ignore SIGINT, and so would
    # its children, to which the worker passes the interrupt.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    try:
        raise SystemExit(serve(options.port, options.allowed_host))
    except KeyboardInterrupt:
        raise SystemExit(DONE) from None
    except PipelineError as error:
        say(str(error))
        raise SystemExit(FAILED) from None
