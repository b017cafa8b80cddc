"""Where results of cached tasks lie: plain JSON values, so that a data root from someone else never runs code.

Prefect reads a result with the serializer that its file names: a pickle is executed, and Prefect's JSON decoder imports
the module that ``__class__`` or ``__exc_type__`` names. So only files of the expected shape get as far as Prefect.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any

from prefect.filesystems import LocalFileSystem
from prefect.logging import get_logger

from tasks.io.files import write_bytes

_SERIALIZER = {"type": "json", "object_decoder": None}
_FORBIDDEN = {"__class__", "__exc_type__"}


class PlainResults(LocalFileSystem):
    """A folder of results. A file that is not a plain JSON value counts as missing, and the log names it."""

    _block_type_slug = "plain-results"

    def read_path(self, path: str, _sync: bool = True) -> bytes:  # type: ignore[override]  # both kinds exist, as in the base class
        """Return a result for Prefect to read. Raises ValueError if it is missing or not plain."""
        file = self._resolve_path(path)
        try:
            return _rebuilt(_read_plain_file(file), file)
        except FileNotFoundError:
            raise ValueError(f"{file} does not exist") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            _logger().warning("%s is no cache entry and is ignored (%s); the task runs again", file, error)
            raise ValueError(f"{file} is no cache entry: {error}") from None

    async def aread_path(self, path: str) -> bytes:
        """Return a result, as ``read_path`` does."""
        return self.read_path(path)

    def write_path(self, path: str, content: bytes, _sync: bool = True) -> str:  # type: ignore[override]
        """Write a result atomically; a link at its place is replaced, not followed. Returns the file's path."""
        file = self._resolve_path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, content)
        return str(file)

    async def awrite_path(self, path: str, content: bytes) -> str:
        """Write a result, as ``write_path`` does."""
        return self.write_path(path, content)

    def _resolve_path(self, path: str) -> Path:
        """Return where a result lies. Prefect's own method follows links, and asks for this one by its name."""
        return Path(self.basepath or ".") / Path(path).name


def _logger() -> Any:
    return get_logger("results")


def _read_plain_file(file: Path) -> bytes:
    # Without waiting: a pipe would never be opened.
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        return opened.read()


def _rebuilt(content: bytes, file: Path) -> bytes:
    """Return a record that holds nothing of the file's but its plain value.

    The key too is ours: it travels with the state, and Prefect reads what it names with its own reader.
    """
    record = json.loads(content)
    metadata = record["metadata"]
    if metadata["serializer"]["type"] != "json":
        raise ValueError(f"its serializer is {metadata['serializer']['type']!r}, not json")
    value = json.loads(record["result"])
    _check_plain(value)
    trusted = {"storage_key": str(file), "serializer": _SERIALIZER}
    return json.dumps({"metadata": trusted, "result": json.dumps(value)}).encode()


def _check_plain(value: Any) -> None:
    if isinstance(value, dict):
        if found := _FORBIDDEN & value.keys():
            raise ValueError(f"it names code to import ({', '.join(sorted(found))})")
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            _check_plain(item)
