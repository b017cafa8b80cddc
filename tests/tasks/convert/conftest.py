"""Settings of all tests of the conversion."""

import pytest


@pytest.fixture(autouse=True)
def no_power_cut(monkeypatch):
    """Nothing is flushed to the disk, which a busy one takes long for: it would only matter in a power cut."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
