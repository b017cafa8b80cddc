"""Fuzzing: the same examples on every machine by default; with FUZZ_EXAMPLES set, that many by chance (`make fuzz`)."""

import os
import resource
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

MOST_GROWTH_MB = 400
"""How far the peak memory of the process may rise over all examples of a module."""

EXAMPLES = os.environ.get("FUZZ_EXAMPLES")

settings.register_profile(
    "fuzz",
    derandomize=EXAMPLES is None,
    max_examples=int(EXAMPLES or 100),
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module", autouse=True)
def bounded_memory() -> Iterator[None]:
    """No example of the module makes the process large."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert grown < MOST_GROWTH_MB, f"grew by {grown} MB"
