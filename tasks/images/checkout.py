"""The checkout of the official DataComp repository: cloned once at a pinned commit, verified before every run."""

import os
import shutil
import subprocess
import uuid
from pathlib import Path

from tasks.contracts.errors import DownloadError, SettingsError
from tasks.contracts.exit_status import describe_exit
from tasks.io.locks import exclusive

SCRIPT = "download_upstream.py"
REDIRECTING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
"""Variables that point git to another repository (git hooks set them)."""


def check_out(folder: Path, url: str, commit: str) -> Path:
    """Clone ``commit`` into ``folder`` if it is missing, and return the path of the official downloader script.

    Raises DownloadError if the clone fails, if ``url`` does not hold the commit, or if the checkout was changed.
    """
    with exclusive(folder.with_name(f".{folder.name}.lock"), wait=True):
        if not folder.exists():
            _clone(folder, url, commit)
    return verify_checkout(folder, commit)


def verify_checkout(folder: Path, commit: str) -> Path:
    """Check that ``folder`` is an unchanged checkout of ``commit``; return its script. Raises DownloadError."""
    anew = f"Move {folder} away; it is then cloned anew."
    if not (folder / ".git").exists():
        raise DownloadError(f"{folder} is no git checkout. {anew}")
    head = _git(folder, "rev-parse", "HEAD").strip()
    if head != commit:
        raise DownloadError(f"{folder} is at commit {head}, but {commit} is pinned. {anew}")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=all").splitlines()
    # Running the script may create compiled modules.
    changed = [line for line in changes if "__pycache__/" not in line]
    if changed:
        raise DownloadError(f"{folder} was changed since it was checked out ({'; '.join(changed[:5])}). {anew}")
    if not (folder / SCRIPT).is_file():
        raise DownloadError(f"Commit {commit} in {folder} holds no {SCRIPT}; check download.upstream_url.")
    return folder / SCRIPT


def _clone(folder: Path, url: str, commit: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    for leftover in folder.parent.glob(f".{folder.name}.*.partial"):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.partial")
    try:
        _git(folder.parent, "clone", "--quiet", "--no-checkout", "--", url, str(temporary))
        _git(temporary, "checkout", "--quiet", "--detach", commit)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _git(folder: Path, *arguments: str) -> str:
    # A shared data root may belong to another user; git rejects such a repository without safe.directory.
    command = ["git", "-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-C", str(folder), *arguments]
    environ = {name: value for name, value in os.environ.items() if name not in REDIRECTING}
    try:
        done = subprocess.run(
            command,
            env=environ | {"GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise SettingsError(f"git does not start ({error.strerror}); the official downloader needs it.") from None
    if done.returncode == 0:
        return done.stdout
    raise DownloadError(
        f"git {arguments[0]} failed for the official downloader (it {describe_exit(done.returncode)}): "
        f"{done.stderr.strip()[-600:]} Name a repository that this machine reaches, and that holds the pinned commit, "
        "in download.upstream_url: a mirror, a bare repository, or a clone on disk."
    )
