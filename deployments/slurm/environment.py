"""The job's environment file, which may hold secrets. Only its owner can read it."""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from tasks.contracts.errors import SettingsError
from tasks.contracts.plain_text import shown
from tasks.slurm.job_folder import ENVIRONMENT_FILE

_CERTIFICATE = "PREFECT_API_SSL_CERT_FILE"


def write_environment(folder: Path, env: Mapping[str, str]) -> None:
    """Write ``env`` as a file that the batch script sources.

    Copies the private CA of Prefect's client beside it, since the nodes may not see the original. Raises
    SettingsError for an invalid name or value, and the file system's OSError.
    """
    env = _with_certificate(folder, env)
    lines = [_line(name, env[name]) for name in sorted(env)]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(folder / ENVIRONMENT_FILE, flags, 0o600), "w", encoding="utf-8") as file:
        file.write("".join(lines))


def remove_environment(folder: Path) -> None:
    """Delete the environment file after the job has ended, since it may hold secrets."""
    (folder / ENVIRONMENT_FILE).unlink(missing_ok=True)


def _line(name: str, value: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        raise SettingsError(f"env: {shown(name)} cannot be the name of an environment variable; rename it")
    if "\0" in value:
        raise SettingsError(f"env: the value of {name} holds a zero byte, which no environment can; remove it")
    return f"export {name}={shlex.quote(value)}\n"


def _with_certificate(folder: Path, env: Mapping[str, str]) -> Mapping[str, str]:
    certificate = env.get(_CERTIFICATE)
    if not certificate or not Path(certificate).is_file():
        return env
    copied = folder / "ca.pem"
    shutil.copyfile(certificate, copied)
    return {**env, _CERTIFICATE: str(copied)}
