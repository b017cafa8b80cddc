"""Runs in the downloader environment: calls img2dataset with the arguments of a JSON file, as they stand.

img2dataset's own command line reads values as Python literals: a path with a comma becomes a tuple, a token
``1e5`` a number. Its worker processes run the top level of this module too, since it is their main module.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
"""See prctl(2): the signal that this process gets when the thread that started it ends."""


def die_with_parent() -> None:
    """Leave no worker behind when the process above is killed (Linux; elsewhere a no-op)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(arguments_file: Path, started_by: int) -> None:
    """Run the download, unless the process ``started_by`` went before it could be tied to this one."""
    if os.getppid() != started_by:
        sys.exit("The process that started this download is gone.")
    img2dataset = importlib.import_module("img2dataset")
    img2dataset.download(**json.loads(arguments_file.read_bytes()))


die_with_parent()
if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
