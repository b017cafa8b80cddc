"""Fuzzing: the same examples on every machine; with FUZZ_EXAMPLES set, that many random ones (`make fuzz`)."""

import os
import resource
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

MOST_GROWTH_MB = 400
"""Limit for the growth of the process's peak memory over all examples of a module."""

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
    """Check that no example of the module increases the peak memory too far."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert grown < MOST_GROWTH_MB, f"grew by {grown} MB"
