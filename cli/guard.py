"""Process of our own server: Prefect's server behind a check of the ``Host`` and ``Origin`` headers.

A web page from another site can send requests to a loopback port, also under a name that it resolves to 127.0.0.1.
So ``Host`` must be a name of this machine, and ``Origin``, which browsers send, must name the same host and port.
Prefect itself authenticates the client with the secret in ``PREFECT_SERVER_API_AUTH_STRING``.
"""

import base64
import hmac
import ipaddress
import os
import socket
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

STARTUP_FAILED: Final = 3
"""Exit status of a server whose startup failed, however long the startup took."""
OPEN_PATH: Final = "/open"
CODE_FILE: Final = "DATACOMP_ENERGON_CODE_FILE"
ALLOWED_HOSTS: Final = "DATACOMP_ENERGON_ALLOWED_HOSTS"
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "frame-ancestors 'none'",
}
# The code follows '#', so that no log contains it. Prefect's UI reads its password from this key.
_PAGE = """<!doctype html><meta charset="utf-8"><title>Prefect UI</title>
<p id="state">Opening the Prefect UI.</p><script>
const code = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
fetch(location.pathname, {method: "POST", body: code}).then(async answer => {
  const text = await answer.text();
  if (!answer.ok) { document.getElementById("state").textContent = text; return; }
  localStorage.setItem("prefect-password", text);
  location.replace("/deployments");
});
</script>
"""
_USED = "This link was used already, or is of an earlier server. Stop `datacomp-energon ui` and start it for a new one."


class Guard:
    """An ASGI app that rejects unknown hosts, opens the UI once for the one-time code, and forwards other requests."""

    def __init__(self, app: ASGIApp, allowed_hosts: frozenset[str], code_file: Path, secret: str) -> None:
        """Guard ``app``; ``code_file`` holds the one-time code and is deleted when the code is used."""
        self.app = app
        self.allowed_hosts = allowed_hosts
        self.code_file = code_file
        self.secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif trouble := self._trouble_with_names(HTTPConnection(scope)):
            await _reject(trouble, scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == OPEN_PATH:
            await (await self._open(Request(scope, receive)))(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _trouble_with_names(self, connection: HTTPConnection) -> str | None:
        hosts = connection.headers.getlist("host")
        if len(hosts) != 1 or not self._is_allowed(hosts[0]):
            return (
                f"the host {', '.join(hosts)} is not a name of this server; datacomp-energon ui --allowed-host adds one"
            )
        origins = connection.headers.getlist("origin")
        if any(
            origin.lower() not in {f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower()} for origin in origins
        ):
            return f"a page of {', '.join(origins)} may not use this server"
        return None

    def _is_allowed(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
        except ValueError:
            return False
        return is_loopback(name) or name in self.allowed_hosts

    async def _open(self, request: Request) -> Response:
        if request.method != "POST":
            return HTMLResponse(_PAGE, headers=_HEADERS)
        if "origin" not in request.headers or not self._take_code((await request.body()).strip()):
            return PlainTextResponse(_USED, status_code=403, headers=_HEADERS)
        return PlainTextResponse(base64.b64encode(self.secret.encode()), headers=_HEADERS)

    def _take_code(self, given: bytes) -> bool:
        try:
            right = hmac.compare_digest(given, self.code_file.read_bytes())
        except FileNotFoundError:
            return False
        if right:
            self.code_file.unlink()
        return right


def is_loopback(name: str) -> bool:
    """Return whether a host name means this machine, without a DNS lookup."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


async def _reject(trouble: str, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
    else:
        await PlainTextResponse(f"{trouble}\n", status_code=403)(scope, receive, send)


def main() -> None:
    """Serve Prefect's API and UI on the loopback interface until terminated."""
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    api = get_current_settings().server.api
    if api.auth_string is None:
        raise SystemExit("PREFECT_SERVER_API_AUTH_STRING is not set: a server of our own never starts without a secret")
    hosts = frozenset(filter(None, os.environ.get(ALLOWED_HOSTS, "").lower().split(",")))
    app: Any = create_app(final=True)
    guard = Guard(app, hosts, Path(os.environ[CODE_FILE]), api.auth_string.get_secret_value())
    config = uvicorn.Config(
        guard,
        timeout_keep_alive=api.keepalive_timeout,
        ws_ping_interval=api.websocket_ping_interval,
        ws_ping_timeout=api.websocket_ping_timeout,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
    )
    server = uvicorn.Server(config)
    server.run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
    if not server.started:
        raise SystemExit(STARTUP_FAILED)


if __name__ == "__main__":
    main()
