"""The demo in a data root: its web on the port that the metadata's URLs contain, and the metadata itself."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from demo.process import PATIENCE_SECONDS, pictures_process
from demo.slice import DemoSlice, write_slice
from tasks.contracts.errors import PipelineError
from tasks.io.files import remove_leftovers, write_json


@dataclass(frozen=True)
class DemoWeb:
    """A running demo: the base URL of its pictures, and the slice whose files are in ``hub_folder``."""

    base_url: str
    hub_folder: Path
    slice: DemoSlice


class _DemoState(BaseModel):
    """The content of ``demo.json``, from which a later run takes the same port and metadata."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    port: int = Field(ge=1, le=65535)
    slice: DemoSlice


@contextlib.contextmanager
def demo_web(folder: Path, patience: float = PATIENCE_SECONDS) -> Iterator[DemoWeb]:
    """Serve the demo of ``folder``; create ``demo.json`` and ``hub/`` on first use and reuse them later.

    The URLs in the metadata contain the port, so a later run needs the same one. Raises PipelineError if another
    process still holds it after ``patience`` seconds, or if ``demo.json`` is invalid.
    """
    state = _read(folder / "demo.json")
    with pictures_process(state.port if state else 0, patience) as base_url:
        yield DemoWeb(base_url, folder / "hub", _load_or_write_slice(folder, state, base_url))


def _load_or_write_slice(folder: Path, state: _DemoState | None, base_url: str) -> DemoSlice:
    """Return the existing slice if its files are intact, else write a new one and then ``demo.json``."""
    if state and state.slice.is_complete_in(folder / "hub"):
        return state.slice
    remove_leftovers(folder / "hub")
    demo = write_slice(folder / "hub", base_url)
    port = int(base_url.rpartition(":")[2])
    write_json(folder / "demo.json", _DemoState(port=port, slice=demo).model_dump(mode="json"))
    return demo


def _read(path: Path) -> _DemoState | None:
    try:
        return _DemoState.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise PipelineError(
            f"{path} is not a note of the quickstart's web ({reason}); start the quickstart with a new root, "
            "or delete that file if nothing of the old run is needed"
        ) from None
