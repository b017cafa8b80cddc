"""Status of a data root and of its stages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

State = Literal["not begun", "unfinished", "done", "failed"]

MAX_LISTED = 20
"""Maximum number of names and reasons listed for one stage; the rest is counted."""


class Stage(BaseModel):
    """One stage. ``done`` of ``of`` items (files, shards, splits; null: unknown) exist.

    ``missing`` and ``why`` list the first missing items and the first reasons of a failure; ``rerun`` describes
    what a rerun would do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: str
    state: State
    done: int | None = None
    of: int | None = None
    missing: tuple[str, ...] = ()
    missing_count: int = 0
    why: tuple[str, ...] = ()
    summary: str = ""
    rerun: str

    def with_failure(self, why: str | None) -> "Stage":
        """Return a failed copy of this stage with ``why`` as first reason, or the stage itself without a reason."""
        return self.model_copy(update={"state": "failed", "why": (why, *self.why)[:MAX_LISTED]}) if why else self


class Status(BaseModel):
    """A whole data root. ``at_work``: live holders of its folder locks; ``died``: holders without a heartbeat."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: Path
    dataset_name: str
    finished: bool
    failed: bool
    at_work: tuple[str, ...]
    died: tuple[str, ...]
    stages: tuple[Stage, ...]


def count_stage(
    stage: str, of: Sequence[str], missing: Sequence[str], rerun: str, *, why: Sequence[str] = (), summary: str = ""
) -> Stage:
    """Build the stage that makes the items ``of``, of which some are ``missing`` (or have changed)."""
    state: State = "unfinished" if len(missing) < len(of) else "not begun"
    if of and not missing:
        state = "done"
    return Stage(
        stage=stage,
        state=state,
        done=len(of) - len(missing),
        of=len(of),
        missing=tuple(missing[:MAX_LISTED]),
        missing_count=len(missing),
        why=tuple(why[:MAX_LISTED]),
        summary=summary,
        rerun=rerun if state != "done" else "nothing to do",
    )
