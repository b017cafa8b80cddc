"""A hub on the loopback interface that serves four small metadata files."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from demo.hub import Fault, Hub, serve_hub
from tasks.metadata.slices import SliceFile
from tests.tasks.metadata.samples import NAMES, REPO, REVISION, write

ServeHub = Callable[..., AbstractContextManager[Hub]]


@pytest.fixture
def pins(tmp_path: Path) -> list[SliceFile]:
    """The pins of the files that the hub serves from ``tmp_path / "served"``."""
    return [write(tmp_path / "served" / name) for name in NAMES]


@pytest.fixture
def serve(tmp_path: Path, pins: list[SliceFile], monkeypatch: pytest.MonkeyPatch) -> ServeHub:
    """Return a function that starts the hub, with a list of faults for each file, and points HF_ENDPOINT at it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_TOKEN", raising=False)

    @contextlib.contextmanager
    def start(faults: dict[str, Sequence[Fault]] | None = None) -> Iterator[Hub]:
        with serve_hub(tmp_path / "served", REPO, REVISION, faults=faults) as hub:
            monkeypatch.setenv("HF_ENDPOINT", hub.url)
            yield hub

    return start
