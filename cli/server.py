"""The Prefect API that a program talks to: the one that is configured, else a server of our own for the run."""

import contextlib
import fcntl
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import certifi
import httpx
from prefect.client.orchestration import get_client
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import (
    PREFECT_API_SSL_CERT_FILE,
    PREFECT_API_URL,
    PREFECT_SERVER_ALLOW_EPHEMERAL_MODE,
    temporary_settings,
)

from deployments.patience import check_server_version
from tasks.contracts.errors import PipelineError
from tasks.io.files import write_bytes

_START_SECONDS = 300
_STOP_SECONDS = 15
_SETTLED_SECONDS = 20.0
"""A server that ends within this time would not come up at the next start either."""
_SERVER = [sys.executable, "-m", "prefect", "server", "start"]


@dataclass(frozen=True)
class Api:
    """A Prefect API: its address, and that of the UI that the same server shows."""

    url: str
    own: bool

    @property
    def ui(self) -> str:
        """Address for a browser."""
        return self.url.removesuffix("/").removesuffix("/api")


@contextlib.contextmanager
def prefect_api(port: int | None = None) -> Iterator[Api]:
    """Make sure that flows run in the block find an API.

    Temporary (ephemeral) servers are switched off: with Dask, every worker would start one of its own on the
    same database. Raises PipelineError if a server of our own does not come up.
    """
    configured = PREFECT_API_URL.value()
    if configured and port is None:
        _refuse_silent(configured)
        yield Api(configured, own=False)
        return
    with _own_server(port) as (url, home), _use(url, _one_certificate(home)):
        try:
            yield Api(url, own=True)
        finally:
            # What the run logged must reach the server before it stops.
            APILogWorker.drain_all(timeout=_STOP_SECONDS)
            EventsWorker.drain_all(timeout=_STOP_SECONDS)


def _refuse_silent(url: str) -> None:
    with get_client(sync_client=True) as client:
        trouble = client.api_healthcheck()
        if not trouble:
            check_server_version(client)
    if trouble:
        why = re.split(r"\n| - ", str(trouble))[0]
        ending = "" if url.rstrip("/").endswith("/api") else ", give an address that ends with /api"
        raise PipelineError(
            f"PREFECT_API_URL is {url}, but no Prefect server answers there ({why}); start it{ending}, or unset "
            "PREFECT_API_URL to have a server of our own for this run"
        )


def state_folder() -> Path:
    """The user's local state folder for this project: server databases and logs lie here, not in data roots."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "datacomp-energon"


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _use(url: str, certificate: Path) -> Iterator[None]:
    """Settings for this process, and the environment for those it starts (Dask workers among them)."""
    before = os.environ.get("PREFECT_API_URL")
    os.environ["PREFECT_API_URL"] = url
    try:
        with temporary_settings(
            {
                PREFECT_API_URL: url,
                PREFECT_API_SSL_CERT_FILE: str(certificate),
                PREFECT_SERVER_ALLOW_EPHEMERAL_MODE: False,
            }
        ):
            yield
    finally:
        os.environ.pop("PREFECT_API_URL")
        if before is not None:
            os.environ["PREFECT_API_URL"] = before


def _one_certificate(home: Path) -> Path:
    """A certificate file for our own server, which is asked without TLS and needs none.

    Prefect's clients load a certificate file all the same, two clients a task run; certifi's takes 17 ms each time.
    """
    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----")
    path = home / "certificate.pem"
    write_bytes(path, f"{first}{end}\n".encode())
    return path


@contextlib.contextmanager
def _own_server(port: int | None) -> Iterator[tuple[str, Path]]:
    if port is not None:
        _refuse_taken(port)
    with _home() as (home, lock):
        log = home / "server.log"
        address = port or free_port()
        process = _start(home, address, log, lock)
        try:
            url = f"http://127.0.0.1:{address}/api"
            _await_health(url, process, log)
            yield url, home
        finally:
            _stop(process)


def _refuse_taken(port: int) -> None:
    """A server that answers there already would be taken for ours. Raises PipelineError."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PipelineError(
                f"port {port} cannot be used ({error.strerror}); end what listens there, or give another --port"
            ) from None


@contextlib.contextmanager
def _home() -> Iterator[tuple[Path, IO[bytes]]]:
    """A folder whose database no other server uses. The lock goes with the server process, not with ours."""
    for number in range(1, 1000):
        home = state_folder() / f"server-{number}"
        home.mkdir(parents=True, exist_ok=True)
        with (home / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield home, lock
            return
    raise PipelineError(f"{state_folder()} holds a thousand servers in use; end some of them")


def _start(home: Path, port: int, log: Path, lock: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        # The option --port alone leaves the UI calling the default port.
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_UI_URL": f"http://127.0.0.1:{port}",
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(home / "ui"),
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    environment.pop("PREFECT_API_URL", None)
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "cli.server"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[lock.fileno()],
        )


def _await_health(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        time.sleep(0.2)
    how = f"did not come up in {_START_SECONDS} s" if process.poll() is None else "ended while it was starting"
    raise PipelineError(
        f"the Prefect server {how}; its log is {log}. Set PREFECT_API_URL to use a server that runs already"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()
    await_end(process, _STOP_SECONDS)


def await_end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for the end of a process that was told to end; kill it if that takes too long."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _serve_until_parent_ends() -> None:
    """The server's process: run ``prefect server start`` as a child, and end it when standard input closes.

    The parent holds the other end of standard input, so a parent that is killed takes the server with it. A server
    that is lost (to the out-of-memory killer, say) is started again: clients wait for it. One that ended while it was
    starting is not.
    """
    while True:
        started = time.monotonic()
        server = subprocess.Popen(_SERVER, stdin=subprocess.DEVNULL)
        while server.poll() is None:
            if select.select([sys.stdin], [], [], 0.5)[0]:  # nobody writes there: it is readable once it is closed
                server.terminate()
                await_end(server, _STOP_SECONDS)
                return
        if time.monotonic() - started < _SETTLED_SECONDS:
            return


if __name__ == "__main__":
    _serve_until_parent_ends()
