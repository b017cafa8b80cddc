"""Child process for the tests of tasks.energon.child: follows its request."""

import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tasks.energon.child import answer_parent


def lose_worker() -> None:
    """Kill this worker after a second."""
    time.sleep(1)
    os.kill(os.getpid(), 9)


def act(request: dict[str, Any]) -> dict[str, Any]:
    """Answer, fail, or leave a grandchild behind and sleep."""
    sys.stderr.write(request.get("say", "") + "\n")
    if "exit" in request:
        sys.exit(request["exit"])
    if "signal" in request:
        os.kill(os.getpid(), request["signal"])
    if "leave" in request or "sleep" in request:
        sleeper = subprocess.Popen(["sleep", "300"])
        sys.stderr.write(f"pids {os.getpid()} {sleeper.pid}\n")
    if "lose_worker" in request:
        multiprocessing.get_context("fork").Process(target=lose_worker).start()
    if "lose_pool_worker" in request:
        with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as processes:
            processes.submit(lose_worker).result()
    time.sleep(request.get("sleep", 0))
    return {"heard": request.get("say")}


if __name__ == "__main__":
    answer_parent(act)
