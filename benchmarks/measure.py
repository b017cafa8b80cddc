"""Measurement of a function in a separate process: time, CPU, memory and bytes."""

import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

KIB = 1024


@dataclass(frozen=True)
class Cost:
    """Cost of a process and all its children.

    Wall and CPU seconds, the peak memory of the largest process, and bytes of all reads and writes, most of which use
    the page cache.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    bytes_read: int
    bytes_written: int


def measured(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Cost]:
    """Run ``function`` in a new process; return its result and its cost. Raises RuntimeError if it fails."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_run, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        answer: tuple[Any, Cost] = ours.recv()
    except EOFError:
        raise RuntimeError(f"{function.__name__} failed; see above") from None
    finally:
        process.join()
    return answer


def _run(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    started = time.perf_counter()
    value = function(*arguments)
    seconds = time.perf_counter() - started
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    read, written = _bytes()
    cost = Cost(
        seconds=seconds,
        cpu_seconds=sum(one.ru_utime + one.ru_stime for one in usage),
        peak_bytes=KIB * max(one.ru_maxrss for one in usage),
        bytes_read=read,
        bytes_written=written,
    )
    pipe.send((value, cost))


def _bytes() -> tuple[int, int]:
    """Return the bytes that this process and its ended children read and wrote (proc(5): rchar and wchar)."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    values = dict(line.split(": ") for line in lines)
    return int(values["rchar"]), int(values["wchar"])
