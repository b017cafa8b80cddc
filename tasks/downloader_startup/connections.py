"""Connections of a downloader process: only http and https, only public addresses, within the deadline."""

import functools
import http.client
import queue
import socket
import threading
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from .addresses import kind_of_host, resolved_is_public
from .allowance import Allowance, PrivateAddressError


def make_opener(allowance: Allowance, allow_private: bool, context: Any = None) -> Any:
    """Return an opener for http and https whose lookups and connects respect ``allowance``.

    Handlers for ``file:``, ``ftp:`` and ``data:`` are left out on purpose: such a URL or redirect raises an error.
    """
    opener = urllib.request.OpenerDirector()
    https = {} if context is None else {"context": context}
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        _HTTPHandler(allowance, allow_private),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        _HTTPSHandler(allowance, allow_private, **https),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


class _GuardedHandler(urllib.request.AbstractHTTPHandler):
    """A handler that opens every connection, redirects included, with ``connect``."""

    def __init__(self, allowance: Allowance, allow_private: bool, **others: Any) -> None:
        super().__init__(**others)
        self.allowance = allowance
        self.allow_private = allow_private

    def do_open(self, http_class: Any, req: Any, **others: Any) -> Any:
        proxied = bool(req._tunnel_host) or req.has_proxy()
        # A proxy resolves names itself, so only literal addresses can be checked here.
        if proxied and not self.allow_private and kind_of_host(urlsplit(req.full_url).hostname):
            raise PrivateAddressError
        connecting = functools.partial(connect, self.allowance, self.allow_private or proxied)

        def make_connection(*args: Any, **kwargs: Any) -> http.client.HTTPConnection:
            connection = http_class(*args, **kwargs)
            connection._create_connection = connecting
            return connection

        return super().do_open(make_connection, req, **others)


class _HTTPHandler(_GuardedHandler, urllib.request.HTTPHandler):
    pass


class _HTTPSHandler(_GuardedHandler, urllib.request.HTTPSHandler):
    pass


def connect(allowance: Allowance, allow_private: bool, target: tuple[str, int], *_: Any, **__: Any) -> socket.socket:
    """Connect to the first address of ``target`` that accepts, checked after the lookup.

    Raises PrivateAddressError if the name has no public address, OSError as ``socket.create_connection`` does.
    """
    found = look_up(*target, allowance.total_left())
    usable = [info for info in found if allow_private or resolved_is_public(str(info[4][0]))]
    if found and not usable:
        raise PrivateAddressError
    failure = OSError("name lookup returned no address")
    for family, kind, protocol, _name, address in usable:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(allowance.time_left())
            connection.connect(address)
            connection.settimeout(allowance.time_left())
            return connection
        except OSError as error:
            connection.close()
            failure = error
    raise failure


def look_up(host: str, port: int, seconds: float) -> list[Any]:
    """Resolve a name within ``seconds``: in a thread, since getaddrinfo has no timeout. Raises OSError."""
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError("name lookup took too long") from None
    if isinstance(answer, Exception):
        raise answer
    return list(answer)
