"""The environment of img2dataset: built with uv from pinned packages, checked by importing them."""

import contextlib
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import uv

from tasks import downloader_startup
from tasks.contracts.certificates import is_untrusted, trusted_file
from tasks.contracts.errors import DownloadError
from tasks.contracts.exit_status import describe_exit
from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import DownloadSettings
from tasks.images.interpreters import find_python
from tasks.io.files import write_json
from tasks.io.locks import exclusive

LOCK = Path(__file__).with_name("downloader-current.txt")
OFFICIAL_LOCK = Path(__file__).with_name("downloader-official.txt")
OFFICIAL_PYTHON = "3.10"
STARTUP = Path(downloader_startup.__file__).parent
STARTUP_MODULE = "datacomp_energon_startup"
MARKER = "datacomp-energon.json"
PROMPT = "datacomp-energon-downloader"
FAILED = "uv could not build the downloader environment"
NO_INDEX = (
    "Where uv's package index cannot be reached, name a mirror with UV_DEFAULT_INDEX (uv does not read pip's "
    "settings) or a folder of wheels with UV_FIND_LINKS, or set download.environment to an environment that "
    "was built on a machine with access."
)
CHECK = """
import importlib.metadata, json, sys
import albumentations, cv2, img2dataset, numpy, pyarrow, wandb, webdataset
found = {d.metadata["Name"].lower(): d.version for d in importlib.metadata.distributions()}
installed = list(found)
print(json.dumps({
    "packages": sorted(f"{name}=={version}" for name, version in found.items()),
    "startup": "STARTUP" in sys.modules,
    "python": ".".join(map(str, sys.version_info[:3])),
    "img2dataset": importlib.metadata.version("img2dataset"),
    "opencv": cv2.__version__,
    "opencv wheels": sorted({n for n in installed if n.startswith("opencv")}),
    "albumentations": albumentations.__version__,
    "numpy": numpy.__version__,
    "pyarrow": pyarrow.__version__,
    "webdataset": webdataset.__version__,
}))
""".replace("STARTUP", STARTUP_MODULE)


@dataclass(frozen=True)
class DownloaderEnvironment:
    """A checked downloader environment: interpreter, SHA-256 of the pins, imported versions, installed packages."""

    python: Path
    lock_sha256: str
    versions: dict[str, str]
    packages: tuple[str, ...] = ()

    @property
    def resolved(self) -> str:
        """The environment as a list of pins, one per line: the content of downloader-environment.txt."""
        python = f"# Python {self.versions.get('python')}, imported: cv2 {self.versions.get('opencv')}"
        return "\n".join([python, *self.packages]) + "\n"


def environment_for(root: DataRoot, settings: DownloadSettings) -> DownloaderEnvironment:
    """Return the environment that the settings select; build it if missing. Raises as ``build_environment`` does."""
    if settings.downloader == "official":
        python = functools.partial(find_python, settings.python, OFFICIAL_PYTHON)
        return build_environment(environment_folder(root, settings), OFFICIAL_LOCK, python)
    return build_environment(
        environment_folder(root, settings), LOCK, functools.partial(find_python, settings.python, None)
    )


def build_environment(
    folder: Path, lock: Path = LOCK, python: Callable[[], Path] = lambda: Path(sys.executable)
) -> DownloaderEnvironment:
    """Return the downloader environment in ``folder`` if it is valid, else build a new one.

    A new one is built under another name and renamed, so that ``folder`` never holds a partial one. ``python`` is
    called for an interpreter only if one is built. Raises DownloadError if uv fails, if the imported versions differ
    from the pins, or if ``folder`` holds files that this project did not create.
    """
    folder = folder.absolute()
    found = find_environment(folder, lock)
    if found:
        return found
    try:
        with exclusive(folder.with_name(f".{folder.name}.lock"), wait=True):
            return find_environment(folder, lock) or _build(folder, lock, python())
    except OSError as error:
        raise DownloadError(
            f"The downloader environment cannot be built in {folder}: {error}. "
            "Name a folder that can be written to in download.environment."
        ) from None


def environment_folder(root: DataRoot, settings: DownloadSettings) -> Path:
    """Return the folder of the downloader environment: in the data root unless the settings name one."""
    ours = root.official_env if settings.downloader == "official" else root.downloader_env
    return settings.environment or ours


def find_environment(folder: Path, lock: Path = LOCK) -> DownloaderEnvironment | None:
    """Return the environment in ``folder`` if it was built from ``lock`` and imports the pinned versions, else None."""
    try:
        recorded = json.loads((folder / MARKER).read_bytes())["lock_sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if recorded != _lock_sha256(lock):
        return None
    with contextlib.suppress(DownloadError):
        return check_environment(folder, lock)
    return None


def check_environment(folder: Path, lock: Path = LOCK) -> DownloaderEnvironment:
    """Import the downloader in ``folder`` and compare its versions with the pins. Raises DownloadError."""
    python = folder / "bin" / "python"
    command = [str(python), "-I", "-c", CHECK]
    environment = clean_environ() | {"NO_ALBUMENTATIONS_UPDATE": "1"}
    output = _run(command, environment, f"{folder} cannot import img2dataset", _repair_advice(folder))
    report = json.loads(output.splitlines()[-1])
    packages = tuple(report.pop("packages"))
    if not report.pop("startup"):
        raise DownloadError(f"{folder} does not load {STARTUP_MODULE}. Remove it; it is then built anew.")
    versions = {name: _text(value) for name, value in report.items()}
    _check_versions(versions, _read_pins(lock), folder)
    return DownloaderEnvironment(python, _lock_sha256(lock), versions, packages)


def clean_environ() -> dict[str, str]:
    """Return our environment variables without those that would make another Python use our packages."""
    leftovers = ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "__PYVENV_LAUNCHER__")
    return {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON") and name not in leftovers
    }


def _build(folder: Path, lock: Path, python: Path) -> DownloaderEnvironment:
    _remove_leftovers(folder)
    _remove_old(folder)
    temporary = _temporary(folder)
    try:
        _install(temporary, lock, python)
        found = check_environment(temporary, lock)
        write_json(temporary / MARKER, {"lock_sha256": found.lock_sha256, "versions": found.versions})
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return replace(found, python=folder / "bin" / "python")


def _install(folder: Path, lock: Path, python: Path) -> None:
    program = uv.find_uv_bin()
    venv = ["venv", "--quiet", "--relocatable", "--prompt", PROMPT, "--python", str(python), str(folder)]
    _run([program, *venv], clean_environ(), FAILED, NO_INDEX)
    install = ["pip", "install", "--quiet", "--no-deps", "--python", str(folder / "bin" / "python")]
    _run([program, *install, "--requirements", str(lock)], clean_environ(), FAILED, NO_INDEX)
    packages = next(folder.glob("lib/python*/site-packages"))
    shutil.copytree(STARTUP, packages / STARTUP_MODULE, ignore=shutil.ignore_patterns("__pycache__"))
    (packages / f"{STARTUP_MODULE}.pth").write_text(f"import {STARTUP_MODULE}\n")


def _run(command: list[str], environment: Mapping[str, str], failed: str, advice: str) -> str:
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise DownloadError(f"{failed}: {command[0]} does not start ({error.strerror}). {advice}") from None
    if done.returncode == 0:
        return done.stdout
    output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
    if is_untrusted(output):
        advice = _certificate_advice()
    raise DownloadError(f"{failed} ({command[0]} {describe_exit(done.returncode)}):\n{output}\n{advice}")


def _repair_advice(folder: Path) -> str:
    if folder.exists() and os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return (
            f"{folder} lies on a file system that is mounted noexec, from which no program or library can be loaded. "
            "Set download.environment to a folder on another file system."
        )
    return "Remove it; it is then built anew."


def _certificate_advice() -> str:
    """Return advice with the variable that makes the installed uv use the system's certificates (uv renamed it)."""
    help_text = subprocess.run([uv.find_uv_bin(), "pip", "install", "--help"], capture_output=True, text=True).stdout
    variable = "UV_SYSTEM_CERTS" if "UV_SYSTEM_CERTS" in help_text else "UV_NATIVE_TLS"
    return (
        f"uv does not trust the certificate of the package index ({trusted_file()}). Set {variable}=true to use the "
        "system's certificates, or SSL_CERT_FILE to a file that holds the authority of the index or of this network's "
        "proxy; uv does not read pip's settings."
    )


def _check_versions(versions: Mapping[str, str], pins: Mapping[str, str], folder: Path) -> None:
    wheels = versions["opencv wheels"]
    if wheels != "opencv-python-headless":
        raise DownloadError(
            f"{folder} holds the OpenCV wheels {wheels}; only opencv-python-headless may be there, since all "
            "of them write the same cv2 folder. Remove the environment; the next run builds it anew."
        )
    for package, imported in (("img2dataset", "img2dataset"), ("opencv-python-headless", "opencv")):
        pinned, found = pins[package], versions[imported]
        # The OpenCV wheel adds a build number: 4.14.0.94 imports as 4.14.0.
        if pinned != found and not pinned.startswith(found + "."):
            raise DownloadError(
                f"{folder} imports {package} {found}, but {pinned} is pinned. Remove the environment; "
                "the next run builds it anew."
            )


def _read_pins(lock: Path) -> dict[str, str]:
    lines = [line.split(";")[0].split("#")[0].strip() for line in lock.read_text().splitlines()]
    pairs = [line.split("==") for line in lines if "==" in line]
    return {name.strip().lower(): version.strip() for name, version in pairs}


def _remove_old(folder: Path) -> None:
    """Delete the old environment in ``folder``. Raises DownloadError if this project did not build it."""
    if not folder.exists() or not any(folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
        return
    config = folder / "pyvenv.cfg"
    if not (config.is_file() and f"prompt = {PROMPT}" in config.read_text(errors="replace")):
        raise DownloadError(
            f"{folder} is not empty and holds no downloader environment of this project. Name another folder "
            "in download.environment, or move this one away."
        )
    # Renamed first: an interrupted deletion must not leave a folder that the check above would reject.
    discarded = _temporary(folder)
    folder.rename(discarded)
    shutil.rmtree(discarded)


def _temporary(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.partial")


def _remove_leftovers(folder: Path) -> None:
    for leftover in folder.parent.glob(f".{folder.name}.*.partial"):
        shutil.rmtree(leftover, ignore_errors=True)


def _lock_sha256(lock: Path) -> str:
    startup = b"".join(path.read_bytes() for path in sorted(STARTUP.glob("*.py")))
    return hashlib.sha256(lock.read_bytes() + startup).hexdigest()


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)
