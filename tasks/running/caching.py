"""Prefect's cache, tied to receipts: an entry counts only while the work it points at is still there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from prefect import Task
from prefect.cache_policies import CachePolicy
from prefect.context import TaskRunContext
from prefect.results import ResultStore, get_result_store

from tasks.io.files import digest
from tasks.running.result_storage import PlainResults

AnyTask = TypeVar("AnyTask", bound=Task[..., Any])


class CachedJob(Protocol):
    """The parameter ``job`` of a cached task: one piece of work that leaves a receipt."""

    def cache_parts(self) -> dict[str, Any] | None:
        """What identifies the work: content of inputs, settings, stage version; no path, no time. None: no cache."""

    def is_done(self) -> bool:
        """Whether the work's valid receipt is there and its outputs are unchanged."""


@dataclass
class ReceiptCache(CachePolicy):
    """Cache key of a task run: a digest of ``job.cache_parts()``.

    The key is computed before the run and cannot tell of outputs, so an entry whose outputs have gone
    or changed is removed here, which makes the task run again.
    """

    def compute_key(
        self, task_ctx: TaskRunContext, inputs: dict[str, Any], flow_parameters: dict[str, Any], **kwargs: Any
    ) -> str | None:
        """The key; None (run without the cache) also when an input cannot be read: the task then says why."""
        job: CachedJob = inputs["job"]
        try:
            parts = job.cache_parts()
        except OSError:
            return None
        if parts is None:
            return None
        key = digest({"task": task_ctx.task.name, **parts})
        if not job.is_done():
            _forget(get_result_store(), key)
        return key


def stored_in(task: AnyTask, folder: Path) -> AnyTask:
    """Return ``task`` with its results under ``folder``, so that every host that shares the data shares them."""
    cached = task.with_options(persist_result=True, result_serializer="json")
    # Given as an option, Prefect would want the block registered with the server.
    cached.result_storage = PlainResults(basepath=str(folder))
    return cached  # type: ignore[return-value]


def _forget(store: ResultStore, key: str) -> None:
    if store.exists(key):
        Path(store._resolved_key_path(key)).unlink(missing_ok=True)
