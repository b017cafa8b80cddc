"""A Prefect cache policy tied to receipts: an entry is valid only while its outputs exist unchanged."""

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
    """The parameter ``job`` of a cached task: one piece of work that writes a receipt."""

    def cache_parts(self) -> dict[str, Any] | None:
        """Return what identifies the work: content of inputs, settings, stage version. None: uncached.

        It must not contain paths or times.
        """

    def is_done(self) -> bool:
        """Return whether the work has a valid receipt and unchanged outputs."""


@dataclass
class ReceiptCache(CachePolicy):
    """Cache policy whose key is a digest of ``job.cache_parts()``.

    The key is computed before the run and cannot cover outputs. So computing it also removes an entry whose outputs
    are missing or changed, which makes the task run again.
    """

    def compute_key(
        self, task_ctx: TaskRunContext, inputs: dict[str, Any], flow_parameters: dict[str, Any], **kwargs: Any
    ) -> str | None:
        """Return the cache key, or None to run uncached. If an input is unreadable, the task itself reports why."""
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
    """Return ``task`` with results stored in ``folder``, so that all hosts that share the data share the results."""
    cached = task.with_options(persist_result=True, result_serializer="json")
    # As an option of with_options, Prefect would require the block to be registered with the server.
    cached.result_storage = PlainResults(basepath=str(folder))
    return cached  # type: ignore[return-value]


def _forget(store: ResultStore, key: str) -> None:
    if store.exists(key):
        Path(store._resolved_key_path(key)).unlink(missing_ok=True)
