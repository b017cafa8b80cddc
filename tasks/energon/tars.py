"""The output tars against the manifest, before Energon sees them: it would skip a damaged one."""

import itertools
import tarfile
from pathlib import Path

from tasks.contracts.errors import DatasetError
from tasks.energon.manifest import PREPARE, Manifest, OutputShard
from tasks.io.files import shown_text
from tasks.io.fingerprints import Fingerprints, Verify


def check_tars(dataset_dir: Path, manifest: Manifest, verify: Verify = "changed") -> None:
    """Check size and SHA-256 of every output tar. Raises DatasetError naming all that differ."""
    notes = Fingerprints(dataset_dir / PREPARE / "fingerprints", verify)
    faults = [_fault(dataset_dir / shard.filename, shard, notes) for shard in manifest.output_shards]
    if found := [fault for fault in faults if fault]:
        raise DatasetError(
            f"{len(found)} of {len(faults)} tars in {dataset_dir} are not those of its manifest: "
            f"{'; '.join(found[:5])}. Delete what is damaged and run the conversion again: it rewrites only that"
        )


def check_strays(dataset_dir: Path, manifest: Manifest) -> None:
    """Check that no tar lies in the dataset's folder or below that the manifest does not name.

    Energon itself, indexing by a pattern such as ``train-shard-.*``, would train on it. Raises DatasetError naming all.
    """
    known = {dataset_dir / shard.filename for shard in manifest.output_shards}
    own = dataset_dir / PREPARE
    tars = (path for path in dataset_dir.rglob("*") if path.suffix.lower() == ".tar")
    strays = sorted(path for path in tars if path not in known and own not in path.parents)
    if strays:
        names = ", ".join(shown_text(str(path.relative_to(dataset_dir))) for path in strays)
        raise DatasetError(
            f"{len(strays)} tars in {dataset_dir} are named neither by its manifest nor by its index: {names}. "
            "Other tools that index by a pattern would train on them; move them elsewhere"
        )


def _fault(tar: Path, shard: OutputShard, notes: Fingerprints) -> str | None:
    if not tar.is_file():
        return f"{shard.filename} is missing"
    size = tar.stat().st_size
    if size != shard.size_bytes:
        return f"{shard.filename} has {size} bytes instead of {shard.size_bytes}"
    sha256 = notes.of(tar).sha256
    if sha256 != shard.sha256:
        return f"{shard.filename} has SHA-256 {sha256} instead of {shard.sha256}"
    return None


def diagnose(dataset_dir: Path, shards: list[str]) -> str | None:
    """What in the tars makes Energon stop, after it did: a tar that is none, or a key that returns."""
    seen: dict[str, str] = {}
    for shard in shards:
        try:
            keys = _keys(dataset_dir / shard)
        except tarfile.TarError as error:
            return f"{shard} cannot be read as a tar ({error})"
        for key in keys:
            if key in seen:
                return f"key {key} in {seen[key]} and again in {shard}; keys must be unique over all shards"
            seen[key] = shard
    return None


def _keys(tar: Path) -> list[str]:
    """The key of each group of neighbouring members: what precedes the first dot of their names."""
    with tarfile.open(tar, "r:") as members:
        return [key for key, _ in itertools.groupby(member.name.partition(".")[0] for member in members)]
