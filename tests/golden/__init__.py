"""Raw shards from the real downloader, and the output of an independent serial implementation."""

import json
import shutil
from pathlib import Path

from tasks.contracts.settings import ConvertSettings

FOLDER = Path(__file__).parent
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
CASES = [(shards, name) for shards, cases in EXPECTED.items() for name in cases]


def copy_shards(shards: str, target: Path) -> Path:
    """Copy the raw tars of a case (``golden`` or ``golden+defects``) into ``target``."""
    target.mkdir(parents=True, exist_ok=True)
    folders = ["raw"] + (["defects"] if shards == "golden+defects" else [])
    for folder in folders:
        for path in (FOLDER / folder).iterdir():
            if not path.name.endswith("_cases.json"):
                shutil.copy(path, target)
    return target


def settings_of(case: dict) -> ConvertSettings:
    """Return the settings of an expected case; its ``max_count`` is our ``max_samples_per_tar``."""
    settings = dict(case["settings"])
    settings["max_samples_per_tar"] = settings.pop("max_count")
    return ConvertSettings(**settings)
