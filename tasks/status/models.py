"""What status says of each stage."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

State = Literal["not begun", "unfinished", "done", "failed"]

SHOWN = 20
"""Names and sentences of one stage that are told; the rest is counted."""


class Stage(BaseModel):
    """One stage. ``done`` of ``of`` things (files, shards, tars; null: not known) are there.

    ``missing`` and ``why`` (the first few) name what is not, and what is wrong; ``rerun`` says what starting the
    same command again would do.
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

    def failed(self, why: str | None) -> "Stage":
        """The same stage, failed for a reason; itself if there is none."""
        return self.model_copy(update={"state": "failed", "why": (why, *self.why)[:SHOWN]}) if why else self


class Status(BaseModel):
    """A whole root. ``at_work``: who holds a folder of it; ``died``: who did, and gave no sign of life since."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: Path
    dataset_name: str
    finished: bool
    failed: bool
    at_work: tuple[str, ...]
    died: tuple[str, ...]
    stages: tuple[Stage, ...]


def counted(
    stage: str, of: Sequence[str], missing: Sequence[str], rerun: str, *, why: Sequence[str] = (), summary: str = ""
) -> Stage:
    """A stage that makes the things ``of``, of which some are ``missing`` (or no longer what they were)."""
    state: State = "done" if of and not missing else "unfinished" if len(missing) < len(of) else "not begun"
    return Stage(
        stage=stage,
        state=state,
        done=len(of) - len(missing),
        of=len(of),
        missing=tuple(missing[:SHOWN]),
        missing_count=len(missing),
        why=tuple(why[:SHOWN]),
        summary=summary,
        rerun=rerun if state != "done" else "nothing to do",
    )
