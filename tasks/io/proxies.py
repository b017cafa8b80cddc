"""Proxy settings in the environment: loopback is always reached without a proxy."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def exempt_loopback() -> None:
    """Add loopback to the user's hosts that this process and its children reach without a proxy."""
    for name in ("no_proxy", "NO_PROXY"):
        # Most clients read the lower-case name first; a user may have set either.
        given = os.environ.get(name) or os.environ.get(name.swapcase(), "")
        hosts = [host.strip() for host in given.split(",") if host.strip()]
        if "*" not in hosts:
            os.environ[name] = ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])


@contextmanager
def changed_environment(**values: str) -> Iterator[None]:
    """Set environment variables while the block runs."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name)
        os.environ.update({name: before[name] for name in values if name in before})
