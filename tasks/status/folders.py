"""Folders looked at once: names, sizes and times of their files, without opening one."""

import os
from pathlib import Path
from typing import NamedTuple


class File(NamedTuple):
    """Size in bytes and time of the last change of content (nanoseconds)."""

    size: int
    changed: int


def files_in(folder: Path, ending: str | tuple[str, ...] = "") -> dict[str, File]:
    """The files of a folder by name, hidden ones left out; nothing if it is not there."""
    try:
        with os.scandir(folder) as entries:
            return {
                entry.name: File(stat.st_size, stat.st_mtime_ns)
                for entry in entries
                if entry.name.endswith(ending) and not entry.name.startswith(".") and entry.is_file()
                for stat in (entry.stat(),)
            }
    except (FileNotFoundError, NotADirectoryError):
        return {}
