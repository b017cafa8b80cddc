"""The demo in a data root: the web under the port that the metadata is pinned to, and the metadata itself."""

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
    """A demo that is up: where its pictures are served, and the slice whose files lie in ``hub_folder``."""

    base_url: str
    hub_folder: Path
    slice: DemoSlice


class _Note(BaseModel):
    """What ``demo.json`` remembers, so that a later run finds the same port and the same metadata."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    port: int = Field(ge=1, le=65535)
    slice: DemoSlice


@contextlib.contextmanager
def demo_web(folder: Path, patience: float = PATIENCE_SECONDS) -> Iterator[DemoWeb]:
    """Serve the demo of ``folder``: ``demo.json`` and ``hub/`` are made on first use and kept from then on.

    The URLs in the metadata hold the port, so a later run needs the same one. Raises PipelineError if
    somebody else still holds it after ``patience`` seconds, or if ``demo.json`` cannot be understood.
    """
    note = _read(folder / "demo.json")
    with pictures_process(note.port if note else 0, patience) as base_url:
        yield DemoWeb(base_url, folder / "hub", _slice(folder, note, base_url))


def _slice(folder: Path, note: _Note | None, base_url: str) -> DemoSlice:
    """The slice that is there already, else a new one; ``demo.json`` is written last."""
    if note and note.slice.lies_in(folder / "hub"):
        return note.slice
    remove_leftovers(folder / "hub")
    demo = write_slice(folder / "hub", base_url)
    port = int(base_url.rpartition(":")[2])
    write_json(folder / "demo.json", _Note(port=port, slice=demo).model_dump(mode="json"))
    return demo


def _read(path: Path) -> _Note | None:
    try:
        return _Note.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise PipelineError(
            f"{path} is not a note of the quickstart's web ({reason}); start the quickstart with a new root, "
            "or delete that file if nothing of the old run is needed"
        ) from None
