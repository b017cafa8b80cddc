"""The addresses that a downloader process connects to: only public ones, over http and https, within the deadline.

Names resolve as in NETWORK, and every address it would connect to is checked: only loopback is ever reached.
"""

import contextlib
import json
import socket
from collections.abc import Iterator

import pytest

from tasks.downloader_startup.addresses import resolved_is_public
from tasks.images.completion import read_stats
from tasks.images.environment import DownloaderEnvironment
from tests.tasks.images.conftest import OFFICIAL, SETTINGS, Slice
from tests.tasks.images.test_startup import OK, fetch, serving
from tests.tasks.images.upstream import Upstream
from tests.tasks.images.web import Web

NETWORK = """
import socket
NAMES = {"public.example": ["8.8.8.8"], "private.example": ["10.0.0.7"], "both.example": ["10.0.0.7", "8.8.8.8"]}
LOOKUPS = []
look_up, connect = socket.getaddrinfo, socket.socket.connect

def fake_look_up(host, port, *rest, **others):
    LOOKUPS.append(host)
    if host in NAMES:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in NAMES[host]]
    return look_up(host, port, *rest, **others)

def fake_connect(self, address):
    here = ("127.0.0.1", *address[1:]) if address[0] == "8.8.8.8" else address
    assert here[0] in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0"), here
    return connect(self, here)

socket.getaddrinfo, socket.socket.connect = fake_look_up, fake_connect
"""
PRIVATE = [
    "127.0.0.1",
    "localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "0.0.0.0",
    "2130706433",
    "0x7f000001",
    "0177.1",
    "10.0.0.7",
    "192.168.1.1",
    "172.16.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "224.0.0.1",
    "255.255.255.255",
    "192.0.0.8",
    "private.example",
    "[fe80::1]",
    "[fd00::1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a00:7]",
    "[64:ff9b:1::a00:7]",
    "[2002:a00:7::]",
    "[::]",
    "[::127.0.0.1]",
    "[fec0::1]",
]


@contextlib.contextmanager
def listening() -> Iterator[tuple[int, socket.socket]]:
    """Yield the port and the socket of a server; check that no client connects."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener.getsockname()[1], listener
        with pytest.raises(BlockingIOError):
            listener.accept()


def public(url: str) -> str:
    return url.replace("127.0.0.1", "public.example")


def redirect(target: str) -> bytes:
    return b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + target.encode() + b"\r\n\r\n"


@pytest.mark.parametrize("host", PRIVATE)
def test_redirect_to_a_private_address_is_refused(host: str) -> None:
    with listening() as (port, _), serving([redirect(f"http://{host}:{port}/secret")]) as (url, asked):
        said, _ = fetch(public(url), allow_private=False, network=NETWORK)
    assert said == "private_address"
    assert asked


@pytest.mark.parametrize("host", ["127.0.0.1", "private.example", "2130706433", "[64:ff9b::7f00:1]"])
def test_private_address_is_refused_at_once(host: str) -> None:
    with listening() as (port, _):
        assert fetch(f"http://{host}:{port}/", allow_private=False, network=NETWORK)[0] == "private_address"
        assert fetch(f"https://{host}:{port}/", allow_private=False, network=NETWORK)[0] == "private_address"


@pytest.mark.parametrize("name", ["public.example", "both.example"])
def test_public_address_is_connected_to(name: str) -> None:
    with serving([OK + b"Content-Length: 3\r\n\r\nabc"]) as (url, _):
        assert fetch(url.replace("127.0.0.1", name), allow_private=False, network=NETWORK)[0] == "3 bytes"


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1", "64:ff9b::808:808"])
def test_public_addresses_are_known_as_such(address: str) -> None:
    assert resolved_is_public(address)


@pytest.mark.parametrize("scheme", ["ftp", "file", "data"])
def test_only_http_and_https_are_opened(scheme: str) -> None:
    with listening() as (port, _):
        target = f"{scheme}://127.0.0.1:{port}/etc/hostname"
        assert "unknown url type" in fetch(target)[0]
        with serving([redirect(target)]) as (url, _):
            said = fetch(url)[0]
    assert "unknown url type" in said or "not allowed" in said


def test_private_address_is_not_looked_up_again_by_a_retry() -> None:
    again = """
import sys
sys.path.insert(0, sys.argv[1])
import downloader_startup, urllib.request
for _ in range(2):
    try:
        urllib.request.urlopen(sys.argv[2])
    except Exception:
        pass
sys.argv[2] = sys.argv[2] if len(LOOKUPS) == 1 else "looked up again"
"""
    with listening() as (port, _):
        said, _ = fetch(f"http://private.example:{port}/", allow_private=False, network=NETWORK + again)
    assert said == "private_address"


def test_slow_lookup_meets_the_deadline() -> None:
    slow = NETWORK + "\nimport time\nsocket.getaddrinfo = lambda *_, **__: time.sleep(30)\n"
    said, seconds = fetch("http://public.example/", network=slow)
    assert said == "<urlopen error name lookup took too long>"
    assert 1.5 < seconds < 10


def test_many_dead_addresses_meet_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
        network = NETWORK + 'NAMES["dead.example"] = ["8.8.8.8"] * 12\n'
        said, seconds = fetch(f"http://dead.example:{full.getsockname()[1]}/", network=network)
    assert said in ("<urlopen error answer took too long in all>", "<urlopen error timed out>")
    assert 1.5 < seconds < 10


def test_proxy_is_connected_to_wherever_it_is() -> None:
    with serving([OK + b"Content-Length: 3\r\n\r\nabc"]) as (proxy, asked):
        said, _ = fetch("http://anything.example/a.jpg", allow_private=False, network=NETWORK, proxy=proxy)
    assert said == "3 bytes"
    assert asked[0].startswith(b"GET http://anything.example/a.jpg ")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", ["10.0.0.7", "2130706433", "localhost", "[64:ff9b::7f00:1]"])
def test_literal_private_address_is_not_asked_of_a_proxy(scheme: str, host: str) -> None:
    with listening() as (port, _):
        said, _ = fetch(f"{scheme}://{host}/", allow_private=False, network=NETWORK, proxy=f"http://127.0.0.1:{port}")
    assert said == "private_address"


def test_proxied_redirect_to_a_private_address_is_refused() -> None:
    with serving([redirect("http://127.0.0.1/secret")]) as (proxy, _):
        said, _ = fetch("http://anything.example/", allow_private=False, network=NETWORK, proxy=proxy)
    assert said == "private_address"


@pytest.mark.parametrize("which", ["official", "current"])
def test_both_downloaders_refuse_private_hosts(
    which: str, slice_: Slice, web: Web, upstream: Upstream, request: pytest.FixtureRequest
) -> None:
    from tasks.images.checkout import check_out

    settings = {"official": OFFICIAL, "current": SETTINGS}[which]
    settings = settings.model_copy(update={"allow_private_hosts": False, "retries": 2})
    if which == "official":
        settings = settings.model_copy(update={"upstream_url": upstream.url, "upstream_commit": upstream.commit})
        check_out(slice_.root.upstream, upstream.url, upstream.commit)
    environment: DownloaderEnvironment = request.getfixturevalue(
        {"official": "official", "current": "downloader"}[which]
    )
    summary = slice_.download(environment, settings)
    assert summary.totals.failures == {"private_address": 40}
    assert not web.requests
    first = sorted(slice_.root.shards.glob("*_stats.json"))[0]
    assert read_stats(first).failures.keys() == {"private_address"}
    assert "private" not in json.dumps(json.loads((slice_.root.download / "identity.json").read_bytes()))
    assert slice_.download(environment, settings, retry_failed=True).improved_shards == 0
