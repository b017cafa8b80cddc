"""Oddities of usable samples: they are always counted, and dropped if a setting says so.

Chat markers: a chat template or a tokenizer would read parts of the caption (``<|im_end|>``, ``<image>``) as control
tokens, which end turns or insert images in the middle of a training text. Extreme aspect ratios: the image processors
of Qwen's VL models reject an image whose sides differ by more than 200:1 (``smart_resize`` in transformers), which
would stop a training.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.contracts.settings import ConvertSettings

CHAT_MARKER = "chat_marker"
EXTREME_ASPECT_RATIO = "extreme_aspect_ratio"
"""Reject reasons, and the names under which kept samples are counted."""

NOT_FINITE = "not_finite"
"""Only counted: a value of ``source`` is or contains NaN or Infinity, and is null in the dataset."""

LARGEST_ASPECT_RATIO = 200

_CAUSES = {
    CHAT_MARKER: "the caption holds a chat marker",
    EXTREME_ASPECT_RATIO: f"one side of the image is more than {LARGEST_ASPECT_RATIO} times the other",
}


ODD_COLUMNS = ["before_uid", "after_uid", "cause", "width", "height", "chat_marker", "not_finite"]
"""Columns of a scan table that this module reads."""

Array = npt.NDArray[Any]


def dropped_kinds(settings: ConvertSettings) -> frozenset[str]:
    """Return the kinds that the settings drop."""
    wanted = {CHAT_MARKER: settings.drop_chat_markers, EXTREME_ASPECT_RATIO: settings.drop_extreme_aspect_ratios}
    return frozenset(kind for kind, drop in wanted.items() if drop)


def count_oddities(shards: Iterable[tuple[pa.Table, Array]]) -> dict[str, int]:
    """Return the number of odd emitted samples by kind; a sample may be of several kinds.

    ``shards``: for each shard, ODD_COLUMNS of its scan table, and which rows are emitted.
    """
    counts = dict.fromkeys((*_CAUSES, NOT_FINITE), 0)
    for table, emitted in shards:
        for kind, odd in _odd(table).items():
            counts[kind] += int(np.count_nonzero(odd & emitted))
    return counts


def leave_out(table: pa.Table, dropped: frozenset[str]) -> pa.Table:
    """Return the scan table with reject reason and cause set for usable samples of the dropped kinds."""
    for kind in (kind for kind in _CAUSES if kind in dropped):
        sound = pc.and_(table.column("before_uid").is_null(), table.column("after_uid").is_null())
        where = pc.and_(sound, pa.chunked_array([pa.array(_odd(table)[kind])]))
        table = _filled(_filled(table, "after_uid", where, kind), "cause", where, _CAUSES[kind])
    return table


def _odd(table: pa.Table) -> dict[str, Array]:
    """Return, for each kind, which rows of a scan table are odd."""
    width, height = (pc.fill_null(table.column(name), 0).to_numpy().astype(np.int64) for name in ("width", "height"))
    short, long = np.minimum(width, height), np.maximum(width, height)
    marked, not_finite = (pc.fill_null(table.column(name), False).to_numpy() for name in ("chat_marker", "not_finite"))
    extreme = long > LARGEST_ASPECT_RATIO * short
    return {CHAT_MARKER: marked, EXTREME_ASPECT_RATIO: extreme, NOT_FINITE: not_finite}


def _filled(table: pa.Table, name: str, where: pa.ChunkedArray, value: str) -> pa.Table:
    place = table.schema.get_field_index(name)
    column = pc.if_else(where, pa.scalar(value, pa.string()), table.column(name))
    return table.set_column(place, table.schema.field(place), column)
