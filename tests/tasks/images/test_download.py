"""Downloads with the real img2dataset from a web on the loopback interface."""

from tasks.images.environment import DownloaderEnvironment
from tests.tasks.images.conftest import Slice


def test_fresh_download(slice_: Slice, downloader: DownloaderEnvironment) -> None:
    summary = slice_.download(downloader)
    print(summary)
