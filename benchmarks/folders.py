"""Working folders of benchmarks, which only empty folders of their own."""

import shutil
from pathlib import Path

from cli.command_line import BAD_ARGUMENTS, say

_MARK = ".benchmark"


def emptied(folder: Path) -> None:
    """Create ``folder`` and delete what an earlier benchmark left in it; exit with 2 if it holds anything else."""
    if folder.exists() and not (folder / _MARK).is_file() and not (folder.is_dir() and not any(folder.iterdir())):
        say(f"--folder: {folder} holds what no benchmark made, and it would be emptied; name a new folder")
        raise SystemExit(BAD_ARGUMENTS)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
