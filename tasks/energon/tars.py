"""Comparison of the output shards with the manifest before Energon reads them: Energon would skip a corrupt one."""

import itertools
import tarfile
from pathlib import Path

from tasks.contracts.errors import DatasetError
from tasks.energon.manifest import PREPARE, Manifest, OutputShard
from tasks.io.files import shown_text
from tasks.io.fingerprints import Fingerprints, Verify


def check_tars(dataset_dir: Path, manifest: Manifest, verify: Verify = "changed") -> None:
    """Check size and SHA-256 of every output tar. Raises DatasetError that lists all mismatches."""
    fingerprints = Fingerprints(dataset_dir / PREPARE / "fingerprints", verify)
    faults = [_describe_mismatch(dataset_dir / shard.filename, shard, fingerprints) for shard in manifest.output_shards]
    if found := [fault for fault in faults if fault]:
        raise DatasetError(
            f"{len(found)} of {len(faults)} tars in {dataset_dir} are not those of its manifest: "
            f"{'; '.join(found[:5])}. Delete the damaged tars and run the conversion again: it rewrites only these"
        )


def check_strays(dataset_dir: Path, manifest: Manifest) -> None:
    """Check that the manifest lists every tar in the dataset's folder and its subfolders.

    Energon would index other tars that match a pattern such as ``train-shard-.*``, and train on them. Raises
    DatasetError with all such tars.
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


def _describe_mismatch(tar: Path, shard: OutputShard, fingerprints: Fingerprints) -> str | None:
    if not tar.is_file():
        return f"{shard.filename} is missing"
    size = tar.stat().st_size
    if size != shard.size_bytes:
        return f"{shard.filename} has {size} bytes instead of {shard.size_bytes}"
    sha256 = fingerprints.of(tar).sha256
    if sha256 != shard.sha256:
        return f"{shard.filename} has SHA-256 {sha256} instead of {shard.sha256}"
    return None


def diagnose(dataset_dir: Path, shards: list[str]) -> str | None:
    """Return why Energon failed on the tars, if known: a file that is not a tar, or a key that occurs twice."""
    seen: dict[str, str] = {}
    for shard in shards:
        try:
            keys = _read_keys(dataset_dir / shard)
        except tarfile.TarError as error:
            return f"{shard} cannot be read as a tar ({error})"
        for key in keys:
            if key in seen:
                return f"key {key} in {seen[key]} and again in {shard}; keys must be unique over all shards"
            seen[key] = shard
    return None


def _read_keys(tar: Path) -> list[str]:
    """Return the key of each group of neighbouring members: their names up to the first dot."""
    with tarfile.open(tar, "r:") as members:
        return [key for key, _ in itertools.groupby(member.name.partition(".")[0] for member in members)]
