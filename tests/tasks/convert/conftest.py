"""Settings of all tests of the conversion."""

import pytest


@pytest.fixture(autouse=True)
def no_power_cut(monkeypatch):
    """Skip fsync: it is slow on a busy disk and only matters in a power cut."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
