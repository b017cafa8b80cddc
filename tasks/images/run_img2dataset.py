"""Script for the downloader environment: calls img2dataset with the unmodified arguments of a JSON file.

img2dataset's own command line parses values as Python literals: a path with a comma becomes a tuple, a token
``1e5`` a number.
"""

import importlib
import json
import sys
from pathlib import Path


def main(arguments_file: Path) -> None:
    """Run the download."""
    img2dataset = importlib.import_module("img2dataset")
    img2dataset.download(**json.loads(arguments_file.read_bytes()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
