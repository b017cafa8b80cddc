"""Our own server: who can use it, which user settings it ignores, and how it fails."""

import json
import os
import re
import select
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

import httpx
import prefect
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from cli.server import Api, prefect_api, state_folder
from tasks.contracts.errors import PipelineError
from tasks.io.proxies import exempt_loopback
from tests.conftest import ROOT

SECRET = "PREFECT_API_AUTH_STRING"


@contextmanager
def tunnel(port: int) -> Iterator[int]:
    """Forward connections from another port, as ``ssh -L`` does; yield that port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, port), daemon=True).start()
        yield listener.getsockname()[1]


def _accept(listener: socket.socket, port: int) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        far = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=_forward, args=(near, far), daemon=True).start()


def _forward(near: socket.socket, far: socket.socket) -> None:
    with near, far:
        while True:
            for source in select.select([near, far], [], [])[0]:
                data = source.recv(65536)
                if not data:
                    return
                (far if source is near else near).sendall(data)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Our own server, with one additional allowed host name, started beside Prefect settings that it must ignore."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "profiles.toml").write_text(
        f'active = "x"\n[profiles.x]\nPREFECT_SERVER_DATABASE_CONNECTION_URL = "sqlite+aiosqlite:///{folder}/profile.db"\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", f"sqlite+aiosqlite:///{folder}/foreign.db")
        patch.setenv("PREFECT_PROFILES_PATH", str(folder / "profiles.toml"))
        patch.setenv("PREFECT_SERVER_API_BASE_PATH", "/elsewhere")
        patch.delenv("NO_PROXY", raising=False)
        patch.setenv("no_proxy", "intranet.example")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        with prefect_api(port, ["login1.example"]) as own:
            yield own


def status(api: Api, path: str = "/api/flows/filter", port: int | None = None, **headers: str) -> int:
    """Return the status of a POST, by default of a read request; send the secret unless ``auth`` is empty."""
    secret = headers.pop("auth", os.environ[SECRET])
    user, _, password = secret.partition(":")
    url = f"http://127.0.0.1:{port}" if port else api.ui
    auth = (user, password) if secret else None
    return httpx.post(url + path, json={}, headers=headers, auth=auth, timeout=60, trust_env=False).status_code


def test_a_request_needs_the_secret_and_a_name_of_this_server(api: Api) -> None:
    own = api.ui.removeprefix("http://")
    assert status(api) == 200
    assert status(api, Host=own, Origin=api.ui) == 200
    assert status(api, Host="login1.example:9", Origin="https://login1.example:9") == 200
    assert status(api, Host="localhost:7777", Origin="http://localhost:7777") == 200
    assert status(api, Host="[::1]:7777") == 200
    assert status(api, auth="") == 401
    assert status(api, auth="datacomp-energon:guess") == 401
    for host in (
        "evil.example",
        "evil.example:4200",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "10.0.0.1",
        "",
    ):
        assert status(api, Host=host) in {400, 403}, host
    for origin in (
        "http://evil.example",
        "null",
        "http://127.0.0.1:1",
        "http://localhost" + own.removeprefix("127.0.0.1"),
    ):
        assert status(api, Origin=origin) == 403, origin
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    preflight = httpx.options(f"{api.url}/flows/filter", headers=asked, trust_env=False, timeout=60)
    assert preflight.status_code == 403 and "access-control-allow-origin" not in preflight.headers
    with tunnel(int(own.partition(":")[2])) as port:
        assert status(api, port=port, Origin=f"http://127.0.0.1:{port}") == 200
        assert status(api, port=port, auth="") == 401


@pytest.mark.parametrize("terminal", [True, False])
def test_a_program_names_its_own_ui_and_a_terminal_alone_gets_the_code(terminal: bool, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_API_")}
    reading, writing = os.openpty() if terminal else os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as stderr:
        command = [sys.executable, "-m", "cli", "check", "--dataset-dir", str(tmp_path / "none")]
        environment = kept | {"XDG_STATE_HOME": str(tmp_path), "DO_NOT_TRACK": "1"}
        program = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=writing)
        os.close(writing)
        told = "".join(_read_until_closed(stderr))
    assert program.wait(300) == 1 and "Beginning flow run" in told, told
    assert "View at" not in told
    place = r"/open#[\w-]{43}\s" if terminal else rf" \(its password is in {tmp_path}/\S+/environment.sh\)\n"
    assert re.search(rf"(?m)^Prefect UI until this program ends: http://127\.0\.0\.1:\d+{place}", told), told


def _read_until_closed(stream: IO[bytes]) -> Iterator[str]:
    with suppress(OSError):  # a terminal whose last writer has ended
        while data := stream.read(65536):
            yield data.decode()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_reads_neither_secret_nor_code(api: Api) -> None:
    assert api.home and api.environment_file
    assert {stat.S_IMODE(path.stat().st_mode) for path in (api.environment_file, api.home / "code")} == {0o600}
    assert stat.S_IMODE(api.home.stat().st_mode) == 0o700
    attack = """
import encodings.idna, glob, os, sys, urllib.request
os.setgid(65534); os.setuid(65534)
secret, url = sys.stdin.read().split()
def readable(path):
    try: return secret in open(path, errors="replace").read().replace("\\0", " ")
    except OSError: return False
found = [path for path in glob.glob("/proc/[0-9]*/*") if path.endswith(("/environ", "/cmdline")) and readable(path)]
for path in (sys.argv[1] + "/environment.sh", sys.argv[1] + "/code"):
    try: found.append(open(path).read())
    except PermissionError: pass
try: found.append(urllib.request.urlopen(urllib.request.Request(url + "/flows/filter", b"{}")).status)
except urllib.error.HTTPError as error: print(error.code)
print(found)
"""
    done = subprocess.run(
        [sys.executable, "-c", attack, str(api.home)],
        input=f"{os.environ[SECRET]} {api.url}",
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "no_proxy": "127.0.0.1"},
        cwd="/",
        check=False,
    )
    assert done.stdout == "401\n[]\n", done.stderr


def test_a_second_shell_uses_the_server_by_the_file(api: Api) -> None:
    command = f'. "{api.environment_file}"; exec "{sys.executable}" -m prefect flow ls'
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_server_takes_no_foreign_setting_and_loopback_no_proxy(api: Api) -> None:
    folder = state_folder().parent.parent
    assert api.home and sqlite3.connect(api.home / "prefect.db").execute("select count(*) from flow").fetchone()
    assert not (folder / "foreign.db").exists() and not (folder / "profile.db").exists()
    assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == "intranet.example,127.0.0.1,localhost,::1"


def test_the_code_of_the_link_works_once_and_only_from_its_own_page(api: Api) -> None:
    code = api.link.partition("#")[2]
    assert code and os.environ[SECRET] not in api.link

    def take(given: str, **headers: str) -> httpx.Response:
        return httpx.post(f"{api.ui}/open", content=given, headers=headers, timeout=60, trust_env=False)

    assert take("guess", Origin=api.ui).status_code == 403
    assert take(code).status_code == 403
    assert take(code, Origin="http://evil.example").status_code == 403
    assert take(code, Origin=api.ui).status_code == 200
    again = take(code, Origin=api.ui)
    assert again.status_code == 403 and "used already" in again.text


def test_a_database_of_another_version_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    home = tmp_path / "datacomp-energon" / "server-1"
    home.mkdir(parents=True)
    with sqlite3.connect(home / "prefect.db") as database:
        database.execute("create table alembic_version (version_num varchar(32) not null)")
        database.execute("insert into alembic_version values ('ffffffffffff')")
    named = r"another version of Prefect.*move that folder aside.*XDG_STATE_HOME"
    with pytest.raises(PipelineError, match=named), prefect_api(_free()):
        pass


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "a.example"}, "a.example,127.0.0.1,localhost,::1"),
        ({"no_proxy": "*"}, "*"),
        ({"no_proxy": "localhost, b.example"}, "localhost,b.example,127.0.0.1,::1"),
    ],
)
def test_no_proxy_is_extended(given: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")  # so that the patch restores both
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    exempt_loopback()
    assert os.environ["no_proxy"] == expected


def test_a_program_behind_a_proxy_asks_it_for_nothing(tmp_path: Path) -> None:
    asked: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(503)

        do_POST = do_CONNECT = do_GET

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{proxy.server_address[1]}"
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_") and k.lower() != "no_proxy"}
        done = subprocess.run(
            [sys.executable, "-m", "cli", "check", "--dataset-dir", str(tmp_path / "none")],
            env=kept | dict.fromkeys(("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"), address),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        proxy.shutdown()
    assert done.returncode == 1 and "Prefect server" not in done.stderr and not asked, done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("home", ["/", None])
def test_a_user_without_a_home_folder_is_told_of_the_variable(home: str | None) -> None:
    code = "import os; from cli.server import prefect_api\nos.setgid(54321); os.setuid(54321)\nwith prefect_api(): pass"
    code = f"try:\n    exec({code!r})\nexcept Exception as error: print(type(error).__name__, error)"
    environment = {name: os.environ[name] for name in ("PATH",)} | {
        "PYTHONPATH": str(ROOT),
        "PREFECT_HOME": "/tmp/none",
    }
    environment |= {"HOME": home} if home else {}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd="/", capture_output=True, text=True)
    assert done.stdout.startswith("PipelineError") and "set XDG_STATE_HOME" in done.stdout, done.stdout + done.stderr


def test_a_port_for_a_server_that_is_not_ours_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "ui", "--port", "4300"],
        env=os.environ | {"PREFECT_API_URL": "http://127.0.0.1:9/api"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "--port is for a server of our own, but PREFECT_API_URL" in done.stderr


def test_a_busy_server_is_reported_at_once_and_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    class Busy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said.append(capsys.readouterr().err)
            status, body = (503, b"busy") if len(said) <= 3 else (200, json.dumps(prefect.__version__).encode())
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as busy:
        threading.Thread(target=busy.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{busy.server_address[1]}/api"
        with temporary_settings({PREFECT_API_URL: url}), prefect_api() as api:
            assert (api.url, api.own) == (url, False)
        busy.shutdown()
    told = f"The Prefect server at {url} answers 503 (Service Unavailable); trying again for 300 s.\n"
    assert said[:3] == ["", "", told]
