"""TLS between a flow and its Dask workers, with keys of that run alone."""

import atexit
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from distributed.security import Security

from deployments.slurm.leftovers import sweep_dask
from tasks.io.folder_lock import one_writer


class RunCertificates(Security):
    """Certificates in a new folder ``tls-*``, locked while the flow lives, so that a sweep can tell a killed one.

    Whoever can talk to a Dask scheduler can run code, and a task's settings, which travel with it, hold the API key.
    """

    def __init__(self, folder: Path) -> None:
        """Write the certificates below ``folder``, the flow run's; the keys of killed flows beside it are deleted."""
        sweep_dask(folder.parent)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="tls-", dir=folder))
        self._held = contextlib.ExitStack()
        self._held.enter_context(one_writer(self.folder, "Dask cluster"))
        atexit.register(self.forget)
        super().__init__(require_encryption=True, **_write(Security.temporary(), self.folder))

    def forget(self) -> None:
        """Delete the certificates; the cluster has ended, or never began."""
        atexit.unregister(self.forget)
        self._held.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        sweep_dask(self.folder.parents[1])


def _write(made: Security, folder: Path) -> dict[str, str]:
    names = [f"tls_{role}_{part}" for role in ("client", "scheduler", "worker") for part in ("cert", "key")]
    return {name: _write_secret(folder / f"{name}.pem", getattr(made, name)) for name in ["tls_ca_file", *names]}


def _write_secret(path: Path, text: str) -> str:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(text)
    return str(path)
