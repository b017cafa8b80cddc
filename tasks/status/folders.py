"""Listings of folders: names, sizes and times of files, without opening them."""

import os
from pathlib import Path
from typing import NamedTuple


class File(NamedTuple):
    """Size in bytes and time of the last modification in nanoseconds."""

    size: int
    changed: int


def list_files(folder: Path, ending: str | tuple[str, ...] = "") -> dict[str, File]:
    """List the files of a folder by name, without hidden ones; return an empty dict if the folder is missing."""
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
