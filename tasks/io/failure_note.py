"""Why the last run of a stage failed: a note beside its receipts that a run that succeeds takes away."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from tasks.contracts.errors import BusyError
from tasks.io.files import write_json


@contextlib.contextmanager
def failure_noted(folder: Path, what: str) -> Iterator[None]:
    """Note in ``folder`` with which words ``what`` failed if the block raises; otherwise remove such a note.

    A run that another one keeps out has not failed. Whether the note can be written never matters, and no folder is
    made for it.
    """
    note = _note(folder, what)
    try:
        yield
    except BusyError:
        raise
    except Exception as error:
        with contextlib.suppress(OSError):
            if folder.is_dir():
                write_json(note, {"what": what, "message": str(error)})
        raise
    with contextlib.suppress(OSError):
        note.unlink(missing_ok=True)


def read_failure(folder: Path, what: str) -> str | None:
    """The words with which ``what`` failed when it last ran in ``folder``, or None."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return str(json.loads(_note(folder, what).read_bytes())["message"])
    return None


def _note(folder: Path, what: str) -> Path:
    return folder / f".{what.replace(' ', '-')}-failure.json"
