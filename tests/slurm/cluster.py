"""A real Slurm on this host, for tests: munge, slurmctld and one slurmd a node, without systemd.

All files lie in one folder and all daemons listen on loopback only; facts behind the settings were measured
with Slurm 22.05 and 24.11 (a `MinJobAge` of 300 s, for example, is Slurm's default).
"""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.slurm.configuration import Layout, database_conf, gres_conf, slurm_conf

# A Slurm other than the host's: a folder with its usr/sbin, usr/bin and plug-ins (to try a newer version by hand).
TREE = os.environ.get("SLURM_TEST_TREE")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
DATABASE_SETUP = (
    "create database if not exists slurm; create user if not exists slurm@localhost identified by 'slurm'; "
    "create user if not exists slurm@'127.0.0.1' identified by 'slurm'; "
    "grant all on slurm.* to slurm@localhost; grant all on slurm.* to slurm@'127.0.0.1'"
)
ACCOUNTING_PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacct", "sacctmgr")


def missing_programs(accounting: bool = False) -> list[str]:
    """Return the programs that are not installed here; search the sbin folders for daemons too."""
    wanted = PROGRAMS + (ACCOUNTING_PROGRAMS if accounting else ())
    return [name for name in wanted if shutil.which(name, path=_search_path()) is None]


@dataclass
class SlurmCluster:
    """A Slurm that runs while the ``with`` block runs."""

    layout: Layout = field(default_factory=Layout)
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="slurm-")))

    _janitor: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "SlurmCluster":
        # If the test process is killed, a janitor process notices the closed pipe and ends the daemons.
        self._janitor = subprocess.Popen(
            [sys.executable, "-m", "tests.slurm.cluster", str(self.folder), json.dumps(asdict(self.layout))],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._write_files()
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._janitor:
            self._janitor.communicate()

    def clean(self) -> None:
        """End all jobs and daemons and delete all files."""
        self._end_jobs()
        for pid in self._pids("slurmd-*.pid", "slurmctld.pid", "slurmdbd.pid", "mariadb.pid", "munged.pid"):
            stop(pid)
        self._remove_cgroups()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def conf(self) -> Path:
        """Path of slurm.conf."""
        return self.folder / "etc" / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that select this cluster."""
        return {"SLURM_CONF": str(self.conf), "PATH": _search_path()}

    def command(self, *arguments: str, check: bool = True, timeout: float = 60) -> str:
        """Run a Slurm command and return its standard output."""
        done = subprocess.run(
            arguments, env=self.environment, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def job_ids(self) -> list[int]:
        """Return the ids of all jobs that slurmctld remembers."""
        return sorted({int(line) for line in self.command("squeue", "-h", "-t", "all", "-o", "%A").split()})

    def start_controller(self) -> None:
        """Start slurmctld; it forks into the background."""
        self._daemon("slurmctld", "-f", str(self.conf))

    def stop_controller(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill slurmctld, as in a crash, or send it another signal: with SIGTERM it saves its state first."""
        for pid in self._pids("slurmctld.pid"):
            os.kill(pid, number)
            _wait_gone(pid, 10)

    @contextlib.contextmanager
    def forgetting(self) -> Iterator[None]:
        """Make slurmctld forget what happens in the block: it then crashes and restarts from the earlier state."""
        state, kept = self.folder / "state", self.folder / "state-before"
        self.stop_controller(signal.SIGTERM)
        shutil.copytree(state, kept)
        self.start_controller()
        try:
            yield
        finally:
            self.stop_controller()
            shutil.rmtree(state)
            kept.rename(state)
            self.start_controller()

    def wait_saved(self, seconds: float = 30) -> None:
        """Wait until slurmctld has saved the current jobs; it saves every few seconds."""
        began, written = time.time(), self.folder / "state" / "job_state"
        self.command("scontrol", "reconfigure")
        deadline = time.monotonic() + seconds
        while not written.exists() or written.stat().st_mtime < began:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{written} was not written within {seconds:g} s")
            time.sleep(0.2)

    def start_node(self, name: str) -> None:
        """Start the slurmd of a node."""
        (self.folder / "spool" / name).mkdir(parents=True, exist_ok=True)
        step = ["-d", f"{TREE}/usr/sbin/slurmstepd"] if TREE else []
        self._daemon("slurmd", "-f", str(self.conf), *step, "-N", name)

    def down(self, node: str) -> None:
        """Mark a node as failed; its jobs end as NODE_FAIL."""
        self.command("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def resume(self, node: str) -> None:
        """Return a node to service."""
        self.command("scontrol", "update", f"nodename={node}", "state=resume", check=False)

    def wait_idle(self, seconds: float = 20) -> None:
        """Wait until every node is idle. Raises RuntimeError with the end of the daemons' logs."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            idle = self.command("sinfo", "-h", "-N", "-t", "idle", "-o", "%N", check=False).split()
            if set(idle) == set(self.layout.nodes):
                return
            time.sleep(0.1)
        raise RuntimeError("not all nodes came up:\n" + self._last_words())

    def _write_files(self) -> None:
        self.folder.chmod(0o755)  # munged rejects a socket in a folder that others cannot enter
        for name in ("etc", "munge", "state", "spool", "log", "run", "gpu"):
            (self.folder / name).mkdir(mode=0o755)
        for number in range(self.layout.gpus):
            # A copy of /dev/null acts as a GPU: Slurm requires character devices.
            os.mknod(self.folder / "gpu" / f"nvidia{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        ports = free_ports(self.layout.port_count)
        self._ports = ports
        self.conf.write_text(slurm_conf(self.layout, self.folder, ports) + _plugins())
        if TREE:
            (self.folder / "etc" / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        (self.folder / "etc" / "gres.conf").write_text(gres_conf(self.layout, self.folder))
        if self.layout.cgroups:
            (self.folder / "etc" / "cgroup.conf").write_text(
                "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n"
                "ConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nMinRAMSpace=1\n"
            )

    def _start(self) -> None:
        munge, run = self.folder / "munge", self.folder / "run"
        self._daemon(
            "munged",
            f"--socket={munge / 'socket'}",
            f"--key-file={munge / 'key'}",
            f"--pid-file={run / 'munged.pid'}",
            f"--log-file={munge / 'log'}",
            f"--seed-file={munge / 'seed'}",
        )
        if self.layout.accounting:
            self._start_accounting()
        self.start_controller()
        for node in self.layout.nodes:
            self.start_node(node)
        self.wait_idle()

    def _start_accounting(self) -> None:
        data, run = self.folder / "database", self.folder / "run"
        options = ["--no-defaults", "--user=root", f"--datadir={data}", "--innodb-log-file-size=8M"]
        self._daemon("mariadb-install-db", *options, "--auth-root-authentication-method=socket", "--skip-test-db")
        server = [f"--socket={run / 'mariadb.sock'}", f"--pid-file={run / 'mariadb.pid'}"]
        server += ["--bind-address=127.0.0.1", f"--port={self._ports[2]}"]
        log = (self.folder / "log" / "mariadb.log").open("wb")
        subprocess.Popen(
            [_program("mariadbd"), *options, *server, "--innodb-buffer-pool-size=64M"],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._until("mariadb", "--no-defaults", f"--socket={run / 'mariadb.sock'}", "-e", DATABASE_SETUP)
        conf = self.folder / "etc" / "slurmdbd.conf"
        conf.write_text(database_conf(self.folder, self._ports) + _plugins())
        conf.chmod(0o600)
        self._daemon("slurmdbd")
        self._until("sacctmgr", "-n", "-i", "add", "cluster", self.layout.name)
        self.command("sacctmgr", "-n", "-i", "add", "account", "vision", f"cluster={self.layout.name}")
        self.command("sacctmgr", "-n", "-i", "add", "user", "root", "account=vision", "defaultaccount=vision")

    def _until(self, *arguments: str) -> None:
        deadline = time.monotonic() + 90
        while True:
            try:
                self.command(*arguments)
                return
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _daemon(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [_program(program), *arguments],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program}: exit {done.returncode}: {done.stderr.strip()}\n{self._last_words()}")

    def _pids(self, *patterns: str) -> list[int]:
        files = [file for pattern in patterns for file in sorted((self.folder / "run").glob(pattern))]
        return [int(text) for file in files if (text := file.read_text().strip())]

    def _end_jobs(self) -> None:
        # A slurmstepd outlives its slurmd, so jobs end first; only a running controller can end them.
        if not self.conf.exists():
            return
        if "is UP" not in self.command("scontrol", "ping", check=False):
            return
        for node in self.layout.nodes:
            self.resume(node)
        self.command("scancel", "--user=root", check=False)
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and self.command("squeue", "-h", check=False).strip():
            time.sleep(0.1)

    def _remove_cgroups(self) -> None:
        if not self.layout.cgroups:
            return
        for node in self.layout.nodes:
            for top in Path("/sys/fs/cgroup").glob(f"*/slurm_{node}"):
                for folder in sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True):
                    folder.rmdir()
                top.rmdir()

    def _last_words(self) -> str:
        logs = sorted((self.folder / "log").glob("*.log"))
        return "\n".join(f"{log.name}: " + "\n".join(log.read_text().splitlines()[-8:]) for log in logs)


def free_ports(count: int) -> list[int]:
    """Return ``count`` consecutive free TCP ports of the loopback interface: slurm.conf takes ranges.

    They are random, below the kernel's ephemeral range, since clusters start concurrently.
    """
    for _ in range(100):
        first = random.randrange(10_000, 32_000 - count)
        if all(_free(port) for port in range(first, first + count)):
            return list(range(first, first + count))
    raise RuntimeError("no free ports")


def stop(pid: int, seconds: float = 5) -> None:
    """End a process: SIGTERM, then SIGKILL after ``seconds``."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if _wait_gone(pid, seconds):
            return


def _wait_gone(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if _gone(pid):
            return True
        time.sleep(0.02)
    return False


def _gone(pid: int) -> bool:
    # PID 1 may reap late: kill -0 succeeds on a zombie, although it has ended.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _program(name: str) -> str:
    return shutil.which(name, path=_search_path()) or name


def _plugins() -> str:
    return f"PluginDir={TREE}/usr/lib/x86_64-linux-gnu/slurm-wlm\n" if TREE else ""


def _search_path() -> str:
    tree = f"{TREE}/usr/sbin:{TREE}/usr/bin:" if TREE else ""
    return tree + os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


if __name__ == "__main__":
    sys.stdin.buffer.read()
    SlurmCluster(Layout(**json.loads(sys.argv[2])), Path(sys.argv[1])).clean()
