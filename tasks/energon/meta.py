"""Energon's index files, read without Energon and compared with the manifest."""

import json
import sqlite3
from array import array
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import yaml
from braceexpand import braceexpand

from tasks.contracts.errors import DatasetError
from tasks.energon.manifest import META, SPLITS, Manifest, Split

INFO = ".info.json"
SPLIT_FILE = "split.yaml"
DATABASE = "index.sqlite"
IDENTITY = "index.uuid"
DATASET_FILE = "dataset.yaml"
BUILT_FILES = (INFO, SPLIT_FILE, DATABASE, IDENTITY)
META_FILES = (*BUILT_FILES, DATASET_FILE)

_INCOMPLETE = """
    SELECT tar_file_id, sample_key, group_concat(part_name, ', ') FROM samples
    LEFT JOIN sample_parts USING (tar_file_id, sample_index)
    GROUP BY tar_file_id, sample_index
    HAVING count(part_name) != 2 OR sum(part_name = 'image.jpg') != 1 OR sum(part_name = 'conversation.json') != 1
    LIMIT 1
"""


def missing_files(dataset_dir: Path, manifest: Manifest) -> list[str]:
    """Return the names of missing index files."""
    wanted = [f"{META}/{name}" for name in META_FILES] + [index_name(shard) for shard in manifest.samples]
    return [name for name in wanted if not (dataset_dir / name).is_file()]


def index_name(shard: str) -> str:
    """Return the name of Energon's file with a tar's sample offsets."""
    return f"{shard}.idx"


def check_counts(dataset_dir: Path, manifest: Manifest) -> None:
    """Compare shards, samples and splits of the index with the manifest.

    Raises DatasetError with the shard and both numbers.
    """
    _compare_counts(f"{META}/{INFO}", _read_shard_counts(dataset_dir), manifest.samples)
    splits = _read_split_shards(dataset_dir)
    for split in SPLITS:
        expected = manifest.samples_of(split)
        if splits.get(split, []) != list(expected):
            raise DatasetError(
                f"{dataset_dir / META / SPLIT_FILE} lists {splits.get(split)} as {split}, the manifest "
                f"{list(expected)}; index again"
            )
    with _open_database(dataset_dir) as database:
        rows = database.execute("SELECT tar_file_id, count(*) FROM samples GROUP BY tar_file_id").fetchall()
    names = list(manifest.samples)
    _compare_counts(
        f"{META}/{DATABASE}", {_shard_name(names, number): count for number, count in rows}, manifest.samples
    )


def check_members(dataset_dir: Path, manifest: Manifest) -> None:
    """Check that every sample has an image and a conversation, and nothing else. Raises DatasetError."""
    with _open_database(dataset_dir) as database:
        row = database.execute(_INCOMPLETE).fetchone()
    if row:
        shard, key, parts = _shard_name(list(manifest.samples), row[0]), row[1], row[2]
        raise DatasetError(
            f"{dataset_dir / shard}: sample {key} holds {parts or 'nothing'}; a sample is one image.jpg and one "
            "conversation.json. Convert again"
        )


def check_offsets(dataset_dir: Path, manifest: Manifest) -> None:
    """Check that each ``.tar.idx`` holds the sample offsets of the database. Raises DatasetError."""
    with _open_database(dataset_dir) as database:
        for number, shard in enumerate(manifest.samples):
            query = "SELECT byte_offset FROM samples WHERE tar_file_id = ? ORDER BY sample_index"
            expected = [offset for (offset,) in database.execute(query, (number,))]
            # Entries are 64-bit integers in native byte order; the last one is the end of the last sample.
            if _read_offsets(dataset_dir / index_name(shard))[:-1] != expected:
                raise DatasetError(f"{dataset_dir / index_name(shard)} does not belong to its tar; index again")


def sample_shards(dataset_dir: Path, manifest: Manifest, split: Split) -> dict[str, str]:
    """Return the shard of every sample key of a split, from Energon's database."""
    names, wanted = list(manifest.samples), manifest.samples_of(split)
    with _open_database(dataset_dir) as database:
        rows = database.execute("SELECT sample_key, tar_file_id FROM samples")
        return {key: names[number] for key, number in rows if names[number] in wanted}


def _read_shard_counts(dataset_dir: Path) -> dict[str, int]:
    """Read Energon's number of samples by shard. Raises DatasetError if its file is missing or corrupt."""
    path = dataset_dir / META / INFO
    try:
        return {str(name): int(count) for name, count in json.loads(path.read_bytes())["shard_counts"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise _damaged_error(path) from None


def _read_split_shards(dataset_dir: Path) -> dict[str, list[str]]:
    path = dataset_dir / META / SPLIT_FILE
    try:
        splits = yaml.safe_load(path.read_bytes())["split_parts"]
        return {split: [shard for name in names for shard in braceexpand(name)] for split, names in splits.items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError, yaml.YAMLError):
        raise _damaged_error(path) from None


def _compare_counts(source: str, found: dict[str, int], expected: dict[str, int]) -> None:
    for shard in sorted(found.keys() | expected.keys()):
        if found.get(shard) != expected.get(shard):
            raise DatasetError(
                f"{source}: {shard} has {found.get(shard, 'no')} samples, the manifest says "
                f"{expected.get(shard, 'it is not part of the dataset')}; index again"
            )


def _shard_name(names: list[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else f"tar number {number}"


def _read_offsets(path: Path) -> list[int]:
    data = path.read_bytes()
    if len(data) % 8:
        raise _damaged_error(path)
    return array("Q", data).tolist()


@contextmanager
def _open_database(dataset_dir: Path) -> Iterator[sqlite3.Connection]:
    path = dataset_dir / META / DATABASE
    try:
        # immutable: SQLite needs neither lock nor journal, so a read-only dataset can be checked.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            yield database
    except sqlite3.Error:
        raise _damaged_error(path) from None


def _damaged_error(path: Path) -> DatasetError:
    return DatasetError(f"{path} is missing or damaged; index again")
