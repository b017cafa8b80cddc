"""A program for tests that kill it: download the slice that the argument describes."""

import json
import sys
from pathlib import Path

from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import DownloadSettings
from tasks.images.download import download_shards
from tasks.images.environment import DownloaderEnvironment
from tasks.images.identity import DownloadInput

if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    environment = DownloaderEnvironment(Path(given["python"]), "test", {})
    download_shards(
        DataRoot(Path(given["root"])),
        DownloadInput.model_validate(given["source"]),
        DownloadSettings.model_validate(given["settings"]),
        lambda: environment,
    )
