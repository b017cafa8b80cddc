"""Child process: indexes the named shards with Energon. Imports torch."""

from pathlib import Path
from typing import Any

from megatron.energon.flavors.webdataset import BaseWebdatasetFactory

from tasks.energon.child import answer_parent
from tasks.energon.manifest import SPLITS

# Energon expands braces and backslashes in a pattern before compiling it, so the patterns contain neither.
PATTERNS = [(split, f"{split}-shard-[0-9]+[.]tar$") for split in SPLITS]


def index(request: dict[str, Any]) -> dict[str, Any]:
    """Index ``shards`` (names) of ``dataset_dir`` with ``workers`` processes."""
    parts = BaseWebdatasetFactory.prepare_dataset(
        Path(request["dataset_dir"]), request["shards"], split_parts_patterns=PATTERNS, workers=request["workers"]
    )
    return {"parts": sorted(parts)}


if __name__ == "__main__":
    answer_parent(index)
