"""How far metadata, download and audit are."""

import re
from collections.abc import Iterator
from pathlib import Path

from tasks.contracts.layout import DataRoot
from tasks.io.failure_note import read_failure
from tasks.status.folders import File, files_in
from tasks.status.models import Stage, State, counted
from tasks.status.records import AuditReceipt, DownloadIdentity, Finding, MetadataManifest, Totals, read

_NUMBERED = re.compile(r"[0-9]+")
_TAR, _STATS = ".tar", "_stats.json"


def metadata(data: DataRoot) -> Stage:
    """The pinned files, as far as a manifest says which they are."""
    present = files_in(data.metadata)
    failure = read_failure(data.metadata, "fetch of metadata")
    manifest = read(data.metadata_manifest, MetadataManifest)
    if manifest is None:
        waiting = sum(name.endswith(".parquet") for name in present)
        return Stage(
            stage="metadata",
            state="unfinished" if waiting else "not begun",
            done=waiting or None,
            rerun="fetch the slice's files that are not in place, and verify all",
        ).failed(failure)
    missing = [file.name for file in manifest.files if present.get(file.name, File(-1, 0)).size != file.bytes]
    again = f"fetch {len(missing)} files that are missing or have another size"
    rows = f"{sum(file.rows for file in manifest.files):,} rows"
    return counted("metadata", [file.name for file in manifest.files], missing, again, summary=rows).failed(failure)


def download(data: DataRoot, raw: dict[str, File]) -> Stage:
    """The shards that the metadata calls for. ``raw``: the files of the shards' folder."""
    failure = read_failure(data.download, "download")
    whole = [shard for shard in names_of(raw, _TAR) if f"{shard}{_STATS}" in raw]
    identity = read(data.download / "identity.json", DownloadIdentity)
    if identity is None:
        state: State = "done" if whole else "not begun"
        origin = "shards of another origin: a download would refuse them; audit and conversion take them"
        rerun = origin if whole else "download all shards"
        return Stage(stage="download", state=state, done=len(whole) or None, rerun=rerun).failed(failure)
    expected = identity.shards()
    there = set(whole)
    missing = [shard for shard in expected if shard not in there]
    stage = counted("download", expected, missing, f"download {len(missing):,} shards")
    if stage.state == "done" and not (data.download / "receipt.json").is_file():
        stage = stage.model_copy(update={"state": "unfinished", "rerun": "hold all shards against the metadata"})
    return stage.failed(failure)


def audit(data: DataRoot, raw: dict[str, File]) -> Stage:
    """The shards' receipts, and what they found."""
    shards = sorted({*names_of(raw, _TAR), *names_of(raw, _STATS)})
    receipts = files_in(data.audit, ".json")
    left = [shard for shard in shards if not _audited(shard, raw, receipts.get(f"{shard}.json"))]
    why = list(_findings(data.audit, receipts))
    stage = counted("audit", shards, left, f"audit {len(left):,} shards that are new or changed", why=why)
    totals = read(data.audit / "totals.json", Totals)
    if totals:
        summary = f"{totals.attempts:,} URLs, {totals.successes:,} samples"
        stage = stage.model_copy(update={"summary": summary})
    failure = read_failure(data.audit, "audit")
    if stage.state == "done" and not totals:
        return stage.model_copy(update={"state": "unfinished", "rerun": "add the receipts up"}).failed(failure)
    if why and not failure:
        failure = f"{len(why)} findings: delete the files of the named shards and download them again"
    return stage.failed(failure)


def names_of(files: dict[str, File], ending: str) -> list[str]:
    """The numbered shards that have a file of this ending, in order."""
    stems = (name.removesuffix(ending) for name in files if name.endswith(ending))
    return sorted(stem for stem in stems if _NUMBERED.fullmatch(stem))


def _audited(shard: str, raw: dict[str, File], receipt: File | None) -> bool:
    """Whether there is a receipt that is no older than the files that it is about."""
    parts = (raw.get(f"{shard}{ending}") for ending in (_TAR, _STATS))
    return receipt is not None and all(part is None or part.changed <= receipt.changed for part in parts)


def _findings(folder: Path, receipts: dict[str, File]) -> Iterator[str]:
    """All findings: those that the last whole audit summed up, and those of receipts that were written since."""
    summed = receipts.get("findings.json", File(0, 0)).changed
    newer = {name for name, file in receipts.items() if _NUMBERED.fullmatch(name[:-5]) and file.changed > summed}
    known = read(folder / "findings.json", tuple[Finding, ...]) or ()
    yield from (str(finding) for finding in known if f"{finding.shard}.json" not in newer)
    for name in sorted(newer):
        receipt = read(folder / name, AuditReceipt)
        yield from map(str, receipt.counts.findings if receipt else ())
