"""A program that audits and converts, and is killed at chosen moments: one child process for each moment.

    python -m tests.tasks.convert.killed RAW FOLDER MOMENT ... [--in FOLDER]

Moments are counted: before and after every opening, syncing, renaming and deleting of a file, making of a folder,
and every member added to a tar. A child that is killed at moment N works in FOLDER/N
(or in the one folder that all are to share); moment 0 is never reached, and
the number of all moments is then written to FOLDER/0/moments.
"""

import argparse
import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.contracts.settings import ConvertSettings
from tasks.convert.output_tar import OutputTar
from tasks.io.files import remove_leftovers
from tests.tasks.convert.serial import convert

SETTINGS = ConvertSettings(max_samples_per_tar=3, validation_fraction=0.3)


def run(raw: Path, folder: Path) -> None:
    """Audit the first shard, so that the conversion has to build the other indexes, and convert all."""
    remove_leftovers(folder / "audit")
    audit_shard(AuditJob(shards_dir=raw, audit_dir=folder / "audit", shard="00000000"))
    convert(raw, folder / "out", SETTINGS, folder / "audit")


class Moments:
    """Counts moments, and kills this process at one of them."""

    def __init__(self, fatal: int) -> None:
        self.fatal = fatal
        self.count = 0

    def pass_one(self) -> None:
        self.count += 1
        if self.count == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*arguments: Any, **options: Any) -> Any:
            self.pass_one()
            result = function(*arguments, **options)
            self.pass_one()
            return result

        return counted

    def watch(self) -> None:
        os.fsync = self.around(lambda descriptor: None)  # a kill loses no data that the system has already received
        OutputTar.add = self.around(OutputTar.add)
        for name in ("open", "replace", "unlink", "mkdir"):
            setattr(Path, name, self.around(getattr(Path, name)))


def child(raw: Path, folder: Path, fatal: int) -> None:
    """Run to the fatal moment, or to the end."""
    folder.mkdir(parents=True, exist_ok=True)
    moments = Moments(fatal)
    moments.watch()
    run(raw, folder)
    (folder / "moments").write_text(str(moments.count))


def main(raw: Path, folder: Path, fatal: list[int], shared: Path | None) -> None:
    """Run one child after the other."""
    for moment in fatal:
        process = os.fork()
        if not process:
            child(raw, shared or folder / str(moment), moment)
            os._exit(0)
        _, status = os.waitpid(process, 0)
        expected = signal.SIGKILL if moment else 0
        if status != expected:
            sys.exit(f"the child of moment {moment} ended with {status}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("raw", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("fatal", type=int, nargs="+")
    parser.add_argument("--in", type=Path, dest="shared")
    main(**vars(parser.parse_args()))
