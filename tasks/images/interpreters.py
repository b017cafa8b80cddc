"""Which Python a downloader environment is built from: found by path, by version, or in pyenv's folder."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tasks.contracts.errors import SettingsError

ASK = "import sys; print('%d.%d' % sys.version_info[:2])"


def find_python(wanted: str | None, version: str | None) -> Path:
    """An interpreter that starts. ``wanted`` is the user's: a path, or a version such as ``3.10``.

    ``version`` is what the environment needs (None: any); without ``wanted`` it is looked for, or our own Python
    is taken. Raises SettingsError that says where was looked, and how to provide one.
    """
    if wanted and not re.fullmatch(r"\d+\.\d+(\.\d+)?", wanted):
        return _at(Path(wanted).expanduser(), version)
    number = wanted or version
    if number is None:
        return Path(sys.executable)
    minor = ".".join(number.split(".")[:2])
    if version and minor != version:
        raise SettingsError(f"download.python is {wanted}, but this downloader needs Python {version}")
    places = list(_places(number))
    found = next((place for place in places if version_of(place) == minor), None)
    if found:
        return found
    raise SettingsError(
        f"no Python {number} starts here; looked at: {', '.join(map(str, places)) or 'PATH, pyenv'}. {_advice(minor)}"
    )


def version_of(python: Path) -> str | None:
    """``3.10`` for an interpreter that starts and says so; None otherwise (pyenv's shims often do not start)."""
    try:
        done = subprocess.run([python, "-I", "-c", ASK], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _at(path: Path, version: str | None) -> Path:
    found = version_of(path)
    if found is None:
        raise SettingsError(f"download.python is {path}, which does not start as a Python. {_advice(version)}")
    if version and found != version:
        raise SettingsError(f"download.python is {path}, a Python {found}; {version} is needed. {_advice(version)}")
    return path.absolute()


def _places(number: str) -> Iterator[Path]:
    """Where a Python of this version may be: on PATH, in pyenv's folder, in uv's, in the usual folders."""
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
