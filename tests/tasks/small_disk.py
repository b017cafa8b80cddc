"""Real file systems for tests of full or read-only disks: a tmpfs of a chosen size."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted tmpfs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def remount(self, options: str) -> None:
        """Change the mount options: ``size=64k``, ``nr_inodes=20``, ``ro``, ``rw``."""
        subprocess.run(["mount", "-o", f"remount,{options}", self.folder], check=True)


@contextlib.contextmanager
def small_disk(folder: Path, options: str) -> Iterator[SmallDisk]:
    """Mount a tmpfs on ``folder``. Skip the test if the user cannot mount; CI can."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    done = subprocess.run(mount, capture_output=True, check=False)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip("this user may not mount a file system")
    assert done.returncode == 0, done.stderr
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
