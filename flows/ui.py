"""A Prefect server and a worker on this machine, for triggering the flows in a browser: ``python -m flows.ui``."""

import signal
import subprocess
import sys
from pathlib import Path

from prefect.settings import PREFECT_API_URL
from pydantic import Field
from pydantic_settings import CliApp

from flows.command_line import DONE, FAILED, CommandLine
from flows.server import prefect_api
from tasks.errors import PipelineError

POOL = "local"


class UiCommandLine(CommandLine):
    """Start a Prefect server and a worker, deploy every flow, and stay until Ctrl-C."""

    port: int = Field(4200, ge=1024, le=65535, description="Port of the server on the loopback interface.")


def serve(port: int) -> int:
    """Run server and worker until one of them ends or Ctrl-C; returns the exit status.

    The configured API is used if there is one; otherwise a server of our own, with the history of earlier runs.
    """
    with prefect_api(port=None if PREFECT_API_URL.value() else port) as api:
        _prefect("work-pool", "create", POOL, "--type", "process", "--overwrite")
        _prefect("--no-prompt", "deploy", "--name", f"*/{POOL}", "--prefect-file", str(_prefect_file()))
        sys.stdout.write(f"\nPrefect UI: {api.ui}/deployments\nStop with Ctrl-C.\n")
        sys.stdout.flush()
        worker = subprocess.Popen([sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL])
        try:
            return worker.wait()
        finally:
            worker.terminate()
            worker.wait()


def _prefect_file() -> Path:
    path = Path(__file__).resolve().parent.parent / "prefect.yaml"
    if not path.exists():
        raise PipelineError(f"{path} is not there: run this from a checkout that is installed with `pip install -e`")
    return path


def _prefect(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "prefect", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise PipelineError(f"prefect {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


def main() -> None:
    """Read the command line, and serve."""
    # A terminated program must take its worker along, as one that is interrupted does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    port = CliApp.run(UiCommandLine).port
    try:
        raise SystemExit(serve(port))
    except KeyboardInterrupt:
        raise SystemExit(DONE) from None
    except PipelineError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(FAILED) from None


if __name__ == "__main__":
    main()
