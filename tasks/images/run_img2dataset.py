"""Runs in the downloader environment: calls img2dataset with the arguments of a JSON file, as they stand.

img2dataset's own command line reads values as Python literals: a path with a comma becomes a tuple, a token
``1e5`` a number. Its worker processes run the top level of this module too, since it is their main module.
"""

import importlib
import json
import os
import sys
import threading
import time
from pathlib import Path

LOOK_SECONDS = 0.5


def end_with(parent: int) -> None:
    """End this process at once when the process ``parent`` is not above it any more.

    Linux can do that by itself (PR_SET_PDEATHSIG), but takes the thread that started a process for its parent:
    it would kill idle workers when the pool's own thread ends, locks in their hands, and the pool would hang.
    """
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


def main(arguments_file: Path) -> None:
    """Run the download."""
    img2dataset = importlib.import_module("img2dataset")
    img2dataset.download(**json.loads(arguments_file.read_bytes()))


started_by = int(sys.argv[2]) if __name__ == "__main__" else os.getppid()
threading.Thread(target=end_with, args=(started_by,), daemon=True).start()
if __name__ == "__main__":
    main(Path(sys.argv[1]))
