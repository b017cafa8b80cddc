"""The search for the Python of a downloader environment: by path, by version, or in pyenv's and uv's folders."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tasks.contracts.errors import SettingsError

VERSION_CODE = "import sys; print('%d.%d' % sys.version_info[:2])"


def find_python(wanted: str | None, version: str | None) -> Path:
    """Find an interpreter that starts. ``wanted`` is the user's choice: a path, or a version such as ``3.10``.

    ``version`` is the version that the environment needs. Without ``wanted``, search for ``version``, or return our own
    Python if that is None. Raises SettingsError with the searched paths and how to provide a Python.
    """
    if wanted and not re.fullmatch(r"\d+\.\d+(\.\d+)?", wanted):
        return _check_interpreter(Path(wanted).expanduser(), version)
    number = wanted or version
    if number is None:
        return Path(sys.executable)
    minor = ".".join(number.split(".")[:2])
    if version and minor != version:
        raise SettingsError(f"download.python is {wanted}, but this downloader needs Python {version}")
    candidates = list(_candidates(number))
    found = next((path for path in candidates if version_of(path) == minor), None)
    if found:
        return found
    raise SettingsError(
        f"no Python {number} starts here; looked at: {', '.join(map(str, candidates)) or 'PATH, pyenv'}. "
        f"{_advice(minor)}"
    )


def version_of(python: Path) -> str | None:
    """Return an interpreter's version such as ``3.10``, or None if it does not start (pyenv's shims often fail)."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", VERSION_CODE], stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _check_interpreter(path: Path, version: str | None) -> Path:
    found = version_of(path)
    if found is None:
        raise SettingsError(f"download.python is {path}, which does not start as a Python. {_advice(version)}")
    if version and found != version:
        raise SettingsError(f"download.python is {path}, a Python {found}; {version} is needed. {_advice(version)}")
    return path.absolute()


def _candidates(number: str) -> Iterator[Path]:
    """Yield possible paths of this Python version: on PATH, in pyenv's, uv's and the system's folders."""
    minor = ".".join(number.split(".")[:2])
    if sys.version.startswith(f"{number}.") or sys.version.split()[0] == number:
        yield Path(sys.executable)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        program = shutil.which(f"python{minor}", path=folder) if folder else None
        if program and number == minor:
            yield Path(program)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local" / "share" / "uv" / "python")
    for pattern in (number, f"{number}.*"):
        yield from sorted(path / "bin" / "python" for path in pyenv.glob(pattern))
        yield from sorted(path / "bin" / "python" for path in uv.glob(f"cpython-{pattern}-*"))
    if number == minor:
        yield from (
            path for path in (Path(f"{top}/bin/python{minor}") for top in ("/usr", "/usr/local")) if path.exists()
        )


def _advice(version: str | None) -> str:
    number = version or "3.11"
    return (
        f"Provide Python {number} with `pyenv install {number}`, `uv python install {number}` or a module of your "
        "site, or name an interpreter in download.python."
    )
