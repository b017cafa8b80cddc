"""Storage for results of cached tasks as plain JSON values, so that an untrusted data root never runs code.

Prefect reads a result with the serializer that the file names. A pickle is executed, and Prefect's JSON decoder imports
the module in ``__class__`` or ``__exc_type__``. So Prefect only gets files of the expected shape.
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
    """A folder of results. A file that is not a plain JSON value counts as missing and is logged."""

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
        """Return a result, like ``read_path``."""
        return self.read_path(path)

    def write_path(self, path: str, content: bytes, _sync: bool = True) -> str:  # type: ignore[override]
        """Write a result atomically and return its path. Replace an existing link instead of following it."""
        file = self._resolve_path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, content)
        return str(file)

    async def awrite_path(self, path: str, content: bytes) -> str:
        """Write a result, like ``write_path``."""
        return self.write_path(path, content)

    def _resolve_path(self, path: str) -> Path:
        """Return the path of a result. Overrides Prefect's method, which follows links."""
        return Path(self.basepath or ".") / Path(path).name


def _logger() -> Any:
    return get_logger("results")


def _read_plain_file(file: Path) -> bytes:
    # O_NONBLOCK: opening a named pipe would block forever.
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        return opened.read()


def _rebuilt(content: bytes, file: Path) -> bytes:
    """Return a new record that takes only the plain value from the file.

    The storage key is also new: the state carries it, and Prefect opens the file that it names with its own reader.
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
