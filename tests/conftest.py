"""A real Prefect server for all tests of a process, and programs run as a user would run them."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.server import Api

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Done:
    """A finished program."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A separate state folder, so that the tests never change the user's."""
    folder = tmp_path_factory.mktemp("state")
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder)
    yield folder
    os.environ.pop("XDG_STATE_HOME")
    if before is not None:
        os.environ["XDG_STATE_HOME"] = before


@pytest.fixture(scope="session")
def own_api(state_home: Path) -> Iterator["Api"]:
    """Our own Prefect server, used by this process and by the programs that it starts."""
    from cli.server import free_port, prefect_api

    with prefect_api(port=free_port()) as api:
        yield api


@pytest.fixture(scope="session")
def prefect_server(own_api: "Api") -> str:
    """The address of the server's API."""
    return own_api.url


def credentials() -> tuple[str, str]:
    """Return the server's user and password, for requests without Prefect's client."""
    user, _, password = os.environ["PREFECT_API_AUTH_STRING"].partition(":")
    return user, password


@pytest.fixture
def program(prefect_server: str, tmp_path: Path) -> Callable[..., Done]:
    """Return a function that runs ``python -m module arguments`` in an empty folder and waits until it ends."""

    def run(module: str, *arguments: object, timeout: float = 300, **environment: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | {"PREFECT_API_URL": prefect_server, "COLUMNS": "120"} | environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL a process that was started as the leader of its group, as the out-of-memory killer would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
