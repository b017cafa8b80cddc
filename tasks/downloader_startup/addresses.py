"""Classification of addresses as public or private: hosts in URLs and resolved addresses, without name lookups."""

import ipaddress
import re
import socket
from typing import Literal, Union
from urllib.parse import unquote

NUMBER = r"(0[xX][0-9a-fA-F]*|[0-9]+)"
IPV4 = re.compile(rf"{NUMBER}(\.{NUMBER}){{0,3}}")
"""What getaddrinfo reads as an IPv4 address: one to four numbers, decimal, octal or hexadecimal."""
GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
SPECIAL_IPV4 = ipaddress.IPv4Network("192.0.0.0/24")
"""IETF protocol assignments (RFC 6890); older versions of ipaddress treat most of them as global."""

HostKind = Literal["host_loopback", "host_private"]
Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]  # noqa: UP007 - evaluated by Python 3.10 too


def kind_of_host(host: str | None) -> HostKind | None:
    """Classify a literal address or ``localhost``; return None for any other name, and for a public address."""
    name = _normalize_host(host or "")
    if name == "localhost" or name.endswith(".localhost"):
        return "host_loopback"
    address = _parse_literal(name)
    if address is None or is_public(address):
        return None
    reached = _embedded_ipv4(address)
    return "host_loopback" if reached.is_loopback or reached.is_unspecified else "host_private"


def is_public(address: Address) -> bool:
    """Return whether an address is on the public internet, also for IPv6 addresses that embed an IPv4 address."""
    reached = _embedded_ipv4(address)
    if not reached.is_global or reached.is_multicast or reached.is_reserved:
        return False
    if isinstance(reached, ipaddress.IPv4Address):
        return reached not in SPECIAL_IPV4
    return reached in GLOBAL_UNICAST


def resolved_is_public(text: str) -> bool:
    """Return whether an address as getaddrinfo writes it (``fe80::1%eth0``, ``10.0.0.1``) is public."""
    return is_public(ipaddress.ip_address(text.partition("%")[0]))


def _embedded_ipv4(address: Address) -> Address:
    """Return the IPv4 address embedded in a mapped, NAT64 or 6to4 address, else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _normalize_host(host: str) -> str:
    """Return the name as a lookup would use it: percent-decoded, IDNA-encoded, in lower case."""
    name = unquote(host)
    if not name.isascii():
        try:
            name = name.encode("idna").decode()
        except UnicodeError:
            return ""
    return name.lower().rstrip(".")


def _parse_literal(name: str) -> Address | None:
    try:
        if ":" in name:
            return ipaddress.IPv6Address(name.strip("[]").partition("%")[0])
        return ipaddress.IPv4Address(socket.inet_aton(name)) if IPV4.fullmatch(name) else None
    except (ValueError, OSError):
        return None
