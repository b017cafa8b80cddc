"""The Prefect API that a program uses: the configured one, or else our own server for the duration of the run."""

import contextlib
import fcntl
import os
import re
import secrets
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import certifi
import httpx
from prefect.client.orchestration import get_client
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_SSL_CERT_FILE,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_SERVER_ALLOW_EPHEMERAL_MODE,
    temporary_settings,
)

from cli.guard import ALLOWED_HOSTS, CODE_FILE, OPEN_PATH, STARTUP_FAILED
from deployments.patience import ask_with_patience, check_server_version
from tasks.contracts.errors import PipelineError
from tasks.io.files import write_bytes
from tasks.io.proxies import changed_environment, exempt_loopback

_START_SECONDS = 300
_STOP_SECONDS = 15
_SETTLED_SECONDS = 20.0
"""A server that ends within this time would fail again at the next start."""
_SERVER = [sys.executable, "-m", "cli.guard"]
_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Api:
    """A Prefect API: its address, and the address of the UI on the same server."""

    url: str
    own: bool
    home: Path | None = None

    @property
    def link(self) -> str:
        """Address that opens the UI once without a password prompt: it holds a one-time code, not the secret."""
        if self.home is None:
            return f"{self.ui}/deployments"
        return f"{self.ui}{OPEN_PATH}#{_code_file(self.home).read_text(encoding='ascii')}"

    @property
    def environment_file(self) -> Path | None:
        """File that a shell can source to use our own server; only its user can read it."""
        return self.home / "environment.sh" if self.home else None

    @property
    def ui(self) -> str:
        """Address of the UI."""
        return self.url.removesuffix("/").removesuffix("/api")


@contextlib.contextmanager
def prefect_api(port: int | None = None, allowed_hosts: Iterable[str] = ()) -> Iterator[Api]:
    """Provide an API for the flows that run in the block.

    Temporary (ephemeral) servers are disabled: with Dask, every worker would start its own on the
    same database. Raises PipelineError if our own server does not start.
    """
    exempt_loopback()
    configured = PREFECT_API_URL.value()
    if configured and port is None:
        _refuse_silent(configured)
        yield Api(configured, own=False)
        return
    secret = f"datacomp-energon:{secrets.token_urlsafe(32)}"
    with _own_server(port, secret, allowed_hosts) as (url, home), _use(url, secret, _one_certificate(home)):
        try:
            yield Api(url, own=True, home=home)
        finally:
            # The run's log records must reach the server before it stops.
            APILogWorker.drain_all(timeout=_STOP_SECONDS)
            EventsWorker.drain_all(timeout=_STOP_SECONDS)


def _refuse_silent(url: str) -> None:
    # Prefect's own retries log nothing for a minute.
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), get_client(sync_client=True) as client:
        trouble = client.api_healthcheck()
        if not trouble:
            check_server_version(client)
    if isinstance(trouble, httpx.HTTPStatusError) and trouble.response.is_server_error:
        ask_with_patience(lambda client: client.hello(), _report)
    elif trouble:
        why = re.split(r"\n| - ", str(trouble))[0]
        ending = "" if url.rstrip("/").endswith("/api") else ", give an address that ends with /api"
        raise PipelineError(
            f"PREFECT_API_URL is {url}, but no Prefect server answers there ({why}); start it{ending}, or unset "
            "PREFECT_API_URL to have a server of our own for this run"
        )


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def state_folder() -> Path:
    """Return the user's local state folder for this project: it holds server databases and logs, data roots do not.

    Raises PipelineError if the user has no home folder.
    """
    try:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise PipelineError(
            "this user has no home folder, so there is no place for the database of a Prefect server; set "
            "XDG_STATE_HOME to a local folder that you can write to"
        ) from None
    return Path(base) / "datacomp-energon"


def _make_private(home: Path) -> None:
    """Create a server's folder, which only its user can enter. Raises PipelineError that names XDG_STATE_HOME."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o700)
    except PermissionError as error:
        raise PipelineError(
            f"{home} cannot be created ({error.strerror}), so there is no place for the database of a Prefect server; "
            "set XDG_STATE_HOME to a local folder that you can write to"
        ) from None


def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _use(url: str, secret: str, certificate: Path) -> Iterator[None]:
    """Configure this process, and the processes that it starts (Dask workers among them), to use the server."""
    with (
        changed_environment(PREFECT_API_URL=url, PREFECT_API_AUTH_STRING=secret),
        temporary_settings(
            {
                PREFECT_API_URL: url,
                PREFECT_API_AUTH_STRING: secret,
                PREFECT_API_SSL_CERT_FILE: str(certificate),
                PREFECT_SERVER_ALLOW_EPHEMERAL_MODE: False,
            }
        ),
    ):
        yield


def _one_certificate(home: Path) -> Path:
    """Write a certificate file for clients of our own server, which uses no TLS and needs no certificate.

    Prefect's clients load a certificate file anyway, two clients for each task run; certifi's takes 17 ms each time.
    """
    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----")
    path = home / "certificate.pem"
    write_bytes(path, f"{first}{end}\n".encode())
    return path


@contextlib.contextmanager
def _own_server(port: int | None, secret: str, allowed_hosts: Iterable[str]) -> Iterator[tuple[str, Path]]:
    # The server inherits the listening socket: at no time can another user's process take the port and receive the
    # secret.
    with _listen(port) as listener, _home() as (home, lock):
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
        log = home / "server.log"
        process = _start(home, listener, lock, secret, allowed_hosts)
        listener.close()
        try:
            _await_health(url, process, log)
            _write_access(home, url, secret)
            yield url, home
        finally:
            _stop(process)
            _remove_access(home)


def _listen(port: int | None) -> socket.socket:
    """Return a listening loopback socket. Raises PipelineError if the port is taken."""
    try:
        return socket.create_server(("127.0.0.1", port or 0))
    except OSError as error:
        why = str(error.strerror).partition(" (")[0]
        raise PipelineError(
            f"port {port} cannot be used ({why}); end what listens there, or give another --port"
        ) from None


def _code_file(home: Path) -> Path:
    return home / "code"


def _write_access(home: Path, url: str, secret: str) -> None:
    """Write the credentials of the server: environment variables for a shell, and the one-time code of the link."""
    lines = f"export PREFECT_API_URL={url}\nexport PREFECT_API_AUTH_STRING={secret}\n"
    _remove_access(home)
    for path, text in ((home / "environment.sh", lines), (_code_file(home), secrets.token_urlsafe(32))):
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(text)


def _remove_access(home: Path) -> None:
    (home / "environment.sh").unlink(missing_ok=True)
    _code_file(home).unlink(missing_ok=True)


@contextlib.contextmanager
def _home() -> Iterator[tuple[Path, IO[bytes]]]:
    """Lock a folder whose database no other server uses, and yield both. The server process keeps the lock."""
    for number in range(1, 1000):
        home = state_folder() / f"server-{number}"
        _make_private(home)
        with (home / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield home, lock
            return
    raise PipelineError(f"{state_folder()} holds a thousand servers in use; end some of them")


def _start(
    home: Path, listener: socket.socket, lock: IO[bytes], secret: str, allowed_hosts: Iterable[str]
) -> subprocess.Popen[bytes]:
    with (home / "server.log").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "cli.server", str(listener.fileno())],
            env=_server_environment(home, listener.getsockname()[1], secret, allowed_hosts),
            # Prefect reads .env, prefect.toml and pyproject.toml of the current folder.
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[lock.fileno(), listener.fileno()],
        )


def _server_environment(home: Path, port: int, secret: str, allowed_hosts: Iterable[str]) -> dict[str, str]:
    """Return the environment of our own server, without the user's Prefect settings and profiles."""
    foreign = {name: value for name, value in os.environ.items() if not name.upper().startswith("PREFECT_")}
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    return foreign | {
        "PYTHONPATH": path,
        "PREFECT_HOME": str(home),
        "PREFECT_PROFILES_PATH": str(home / "profiles.toml"),
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_API_AUTH_STRING": secret,
        "PREFECT_UI_URL": f"http://127.0.0.1:{port}",
        # Relative: a tunnel may show the server on another port.
        "PREFECT_UI_API_URL": "/api",
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(home / "ui"),
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        CODE_FILE: str(_code_file(home)),
        ALLOWED_HOSTS: ",".join(allowed_hosts),
    }


def _await_health(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health", timeout=5, trust_env=False).status_code == 200:
                return
        time.sleep(0.2)
    if "Can't locate revision" in log.read_text(encoding="utf-8", errors="replace"):
        raise PipelineError(
            f"the database in {log.parent} is of another version of Prefect, so the server cannot start; move that "
            "folder aside (its history goes with it), or set XDG_STATE_HOME to another folder"
        )
    how = f"did not come up in {_START_SECONDS} s" if process.poll() is None else "ended while it was starting"
    raise PipelineError(
        f"the Prefect server {how}; its log is {log}. Set PREFECT_API_URL to use a server that runs already"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()
    await_end(process, _STOP_SECONDS)


def await_end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for a process that was asked to stop; kill it after ``seconds``."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _serve_until_parent_ends(descriptor: int) -> None:
    """Run the server on a listening socket as a child process, and stop it when standard input closes.

    The parent holds the other end of standard input, so killing the parent also stops the server. If the server
    dies (to the out-of-memory killer, say), it is restarted: clients wait for it. A server that ends during its
    startup is not.
    """
    while True:
        started = time.monotonic()
        server = subprocess.Popen([*_SERVER, str(descriptor)], stdin=subprocess.DEVNULL, pass_fds=[descriptor])
        while server.poll() is None:
            if select.select([sys.stdin], [], [], 0.5)[0]:  # nothing is ever written: readable means closed
                server.terminate()
                await_end(server, _STOP_SECONDS)
                return
        if server.returncode == STARTUP_FAILED or time.monotonic() - started < _SETTLED_SECONDS:
            return


if __name__ == "__main__":
    _serve_until_parent_ends(int(sys.argv[1]))
