"""Folders that benchmarks empty: only their own."""

import shutil
from pathlib import Path

from cli.command_line import BAD_ARGUMENTS, say

_MARK = ".benchmark"


def emptied(folder: Path) -> None:
    """Make ``folder`` anew. What a benchmark left in it goes; exits with 2 if something else lies there."""
    if folder.exists() and not (folder / _MARK).is_file() and not (folder.is_dir() and not any(folder.iterdir())):
        say(f"--folder: {folder} holds what no benchmark made, and it would be emptied; name a new folder")
        raise SystemExit(BAD_ARGUMENTS)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
