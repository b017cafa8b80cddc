"""Whether the host of a URL is, as it stands there, an address of this machine or a private one. No name lookups."""

import ipaddress
import re
import socket
from typing import Literal
from urllib.parse import unquote

NUMBER = r"(0[xX][0-9a-fA-F]*|[0-9]+)"
IPV4 = re.compile(rf"{NUMBER}(\.{NUMBER}){{0,3}}")
"""What getaddrinfo takes for an IPv4 address: one to four numbers, decimal, octal or hexadecimal."""

HostKind = Literal["host_loopback", "host_private"]


def kind_of_host(host: str | None) -> HostKind | None:
    """What a literal address or ``localhost`` is; None for any other name, and for a public address."""
    name = _as_looked_up(host or "")
    if name == "localhost" or name.endswith(".localhost"):
        return "host_loopback"
    address = _address(name)
    if address is None:
        return None
    if address.is_loopback or address.is_unspecified:
        return "host_loopback"
    return None if address.is_global and not address.is_multicast else "host_private"


def _as_looked_up(host: str) -> str:
    """The name as it would be looked up: percent signs and other scripts' digits resolved."""
    name = unquote(host)
    if not name.isascii():
        try:
            name = name.encode("idna").decode()
        except UnicodeError:
            return ""
    return name.lower().rstrip(".")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        if name.startswith("["):
            address = ipaddress.IPv6Address(name.strip("[]").partition("%")[0])
            return address.ipv4_mapped or address
        return ipaddress.IPv4Address(socket.inet_aton(name)) if IPV4.fullmatch(name) else None
    except (ValueError, OSError):
        return None
