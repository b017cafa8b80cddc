"""Status of the stages before a dataset: metadata, download and audit."""

import re
from collections.abc import Iterator
from pathlib import Path

from tasks.contracts.layout import DataRoot
from tasks.io.failure_note import read_failure
from tasks.status.folders import File, list_files
from tasks.status.models import Stage, State, count_stage
from tasks.status.records import AuditReceipt, DownloadIdentity, MetadataManifest, RecordedFinding, Totals, read_record

_NUMBERED = re.compile(r"[0-9]+")
_TAR, _STATS = ".tar", "_stats.json"


def metadata(data: DataRoot) -> Stage:
    """Return the metadata stage, from the metadata manifest and the files of the slice."""
    present = list_files(data.metadata)
    failure = read_failure(data.metadata, "fetch of metadata")
    manifest = read_record(data.metadata_manifest, MetadataManifest)
    if manifest is None:
        waiting = sum(name.endswith(".parquet") for name in present)
        return Stage(
            stage="metadata",
            state="unfinished" if waiting else "not begun",
            done=waiting or None,
            rerun="fetch the missing files of the slice, and verify all",
        ).with_failure(failure)
    missing = [file.name for file in manifest.files if present.get(file.name, File(-1, 0)).size != file.bytes]
    again = f"fetch {len(missing)} files that are missing or have another size"
    rows = f"{sum(file.rows for file in manifest.files):,} rows"
    stage = count_stage("metadata", [file.name for file in manifest.files], missing, again, summary=rows)
    return stage.with_failure(failure)


def download(data: DataRoot, raw: dict[str, File]) -> Stage:
    """Return the download stage: the raw shards that the metadata needs. ``raw``: files in the folder of raw shards."""
    failure = read_failure(data.download, "download")
    complete = [shard for shard in shard_names(raw, _TAR) if f"{shard}{_STATS}" in raw]
    identity = read_record(data.download / "identity.json", DownloadIdentity)
    if identity is None:
        state: State = "done" if complete else "not begun"
        origin = "a download would reject these shards of another tool; audit and conversion accept them"
        rerun = origin if complete else "download all shards"
        return Stage(stage="download", state=state, done=len(complete) or None, rerun=rerun).with_failure(failure)
    expected = identity.shards()
    present_shards = set(complete)
    missing = [shard for shard in expected if shard not in present_shards]
    stage = count_stage("download", expected, missing, f"download {len(missing):,} shards")
    if stage.state == "done" and not (data.download / "receipt.json").is_file():
        stage = stage.model_copy(update={"state": "unfinished", "rerun": "compare all shards with the metadata"})
    return stage.with_failure(failure)


def audit(data: DataRoot, raw: dict[str, File]) -> Stage:
    """Return the audit stage, from the audit receipts of the raw shards and their findings."""
    shards = sorted({*shard_names(raw, _TAR), *shard_names(raw, _STATS)})
    receipts = list_files(data.audit, ".json")
    left = [shard for shard in shards if not _has_current_receipt(shard, raw, receipts.get(f"{shard}.json"))]
    why = list(_findings(data.audit, receipts))
    stage = count_stage("audit", shards, left, f"audit {len(left):,} shards that are new or changed", why=why)
    totals = read_record(data.audit / "totals.json", Totals)
    if totals:
        summary = f"{totals.attempts:,} URLs, {totals.successes:,} samples"
        stage = stage.model_copy(update={"summary": summary})
    failure = read_failure(data.audit, "audit")
    if stage.state == "done" and not totals:
        return stage.model_copy(update={"state": "unfinished", "rerun": "sum up the receipts"}).with_failure(failure)
    if why and not failure:
        failure = f"{len(why)} findings: delete the files of the named shards and download them again"
    return stage.with_failure(failure)


def shard_names(files: dict[str, File], ending: str) -> list[str]:
    """Return the sorted names of the numbered shards that have a file with this ending."""
    stems = (name.removesuffix(ending) for name in files if name.endswith(ending))
    return sorted(stem for stem in stems if _NUMBERED.fullmatch(stem))


def _has_current_receipt(shard: str, raw: dict[str, File], receipt: File | None) -> bool:
    """Return whether the receipt exists and is at least as new as the shard's files."""
    parts = (raw.get(f"{shard}{ending}") for ending in (_TAR, _STATS))
    return receipt is not None and all(part is None or part.changed <= receipt.changed for part in parts)


def _findings(folder: Path, receipts: dict[str, File]) -> Iterator[str]:
    """Yield all findings: those of the last complete audit, and those of receipts written since."""
    summed = receipts.get("findings.json", File(0, 0)).changed
    newer = {name for name, file in receipts.items() if _NUMBERED.fullmatch(name[:-5]) and file.changed > summed}
    known = read_record(folder / "findings.json", tuple[RecordedFinding, ...]) or ()
    yield from (str(finding) for finding in known if f"{finding.shard}.json" not in newer)
    for name in sorted(newer):
        receipt = read_record(folder / name, AuditReceipt)
        yield from map(str, receipt.counts.findings if receipt else ())
