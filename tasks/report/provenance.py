"""Where a dataset came from and how long each stage took, as table rows."""

import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.report.places import Places, read_json

Row = tuple[str, str]
_PACKAGES = ("datacomp-energon", "megatron-energon", "pillow", "pyarrow", "numpy", "prefect")


def provenance(places: Places, manifest: dict[str, Any]) -> list[Row]:
    """Return hashes, settings and versions of metadata, download, conversion and report, as rows of two cells."""
    return [(what, _text(value)) for what, value in _facts(places, manifest) if value not in (None, "", [], {})]


def _facts(places: Places, manifest: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if places.data:
        metadata = read_json(places.data.metadata_manifest)
        download = read_json(places.data.download / "receipt.json")
        yield "Slice", metadata.get("slice")
        yield "Metadata from", f"{metadata.get('repo_id', '')} {metadata.get('revision', '')}".strip()
        yield "Metadata SHA-256", metadata.get("metadata_sha256")
        yield "Metadata files", [file["name"] for file in metadata.get("files", [])]
        yield "Downloader's packages, SHA-256", download.get("inputs", {}).get("downloader_locks")
        for name, value in download.get("settings", {}).items():
            yield f"download.{name}", value
    source = manifest.get("source", {})
    yield "Plan", manifest.get("plan")
    yield "Contract version", manifest.get("contract_version")
    for name, value in manifest.get("settings", {}).items():
        yield f"convert.{name}", value
    yield "Accepted although samples may be missing", list(source.get("accepted_cut_tars", {}).values())
    for name, value in manifest.get("decoders", {}).items():
        yield f"Decoded by {name}", value
    for name in _PACKAGES:
        yield f"Report made with {name}", importlib.metadata.version(name)


def output_tars(manifest: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return file name, samples, bytes and SHA-256 of every output shard."""
    return [
        (tar["filename"], f"{tar['samples']:,}", f"{tar['size_bytes']:,}", tar["sha256"])
        for tar in manifest.get("output_shards", [])
    ]


def timings(places: Places) -> list[tuple[str, int, str]]:
    """Return each stage with its number of finished runs and their total seconds, from the stages' timing files."""
    folders = [places.prepare]
    if places.data:
        folders = [places.data.download, places.data.audit, *folders]
    found: dict[str, list[float]] = {}
    for folder in folders:
        for note in _read_timings(folder / "timings.jsonl"):
            found.setdefault(str(note.get("name")), []).append(float(note.get("seconds", 0)))
    return [(name, len(seconds), f"{sum(seconds):,.1f} s") for name, seconds in found.items()]


def _read_timings(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            note = json.loads(line)
        except ValueError:
            continue  # a killed run left an incomplete line
        if isinstance(note, dict):
            yield note


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
