"""The failure note: why the last run of a stage failed. It stays beside the receipts until a run succeeds."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from tasks.contracts.errors import BusyError
from tasks.io.files import write_json


@contextlib.contextmanager
def failure_noted(folder: Path, what: str) -> Iterator[None]:
    """Write the error message of ``what`` to ``folder`` if the block raises; otherwise remove an older note.

    BusyError does not count as a failure. Errors while writing the note are ignored. A missing folder is not created.
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
    """Return the error message of the last run of ``what`` in ``folder``, or None if it is missing."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return str(json.loads(_note(folder, what).read_bytes())["message"])
    return None


def _note(folder: Path, what: str) -> Path:
    return folder / f".{what.replace(' ', '-')}-failure.json"
