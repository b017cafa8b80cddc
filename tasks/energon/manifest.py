"""Model of ``manifest.json``: the output shards of each split and their samples."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tasks.contracts.errors import DatasetError, GateError

Split = Literal["train", "val"]
SPLITS: tuple[Split, ...] = ("train", "val")

MANIFEST = "manifest.json"
META = ".nv-meta"
PREPARE = ".prepare"


class _Part(BaseModel):
    """A part of the manifest; fields that this stage does not need are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class OutputShard(_Part):
    """One output shard, as the conversion wrote it; ``sha256`` in hex."""

    filename: Annotated[str, Field(pattern=r"^(train|val)-shard-[0-9]+\.tar$")]
    split: Split
    samples: Annotated[int, Field(ge=1)]
    size_bytes: int
    sha256: str


class _Counts(_Part):
    train: int
    val: int


class _Adaptation(_Part):
    prompt: str


class Manifest(_Part):
    """The part of ``manifest.json`` that indexing and checking need."""

    accepted: bool
    counts: _Counts
    adaptation: _Adaptation
    output_shards: tuple[OutputShard, ...]

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        names = [shard.filename for shard in self.output_shards]
        if len(set(names)) != len(names):
            raise ValueError("output_shards names a file twice")
        for shard in self.output_shards:
            if not shard.filename.startswith(f"{shard.split}-"):
                raise ValueError(f"{shard.filename} is listed under split {shard.split!r}")
        for split in SPLITS:
            counted, listed = getattr(self.counts, split), self.count_of(split)
            if counted != listed:
                raise ValueError(f"counts.{split} is {counted}, its output_shards hold {listed} samples")
        return self

    def samples_of(self, split: Split) -> dict[str, int]:
        """Return the number of samples by shard name, in lexical order."""
        shards = {shard.filename: shard.samples for shard in self.output_shards if shard.split == split}
        return dict(sorted(shards.items()))

    def count_of(self, split: Split) -> int:
        """Return the number of samples of a split."""
        return sum(self.samples_of(split).values())

    @property
    def samples(self) -> dict[str, int]:
        """Number of samples by shard name over all splits, in lexical order within each split."""
        return {name: count for split in SPLITS for name, count in self.samples_of(split).items()}


def read_manifest(dataset_dir: Path) -> Manifest:
    """Read the manifest of an accepted dataset.

    Raises DatasetError if it is missing or invalid; GateError if the dataset was not accepted.
    """
    path = dataset_dir / MANIFEST
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise DatasetError(f"{path} is missing: convert the dataset first; its manifest is written last") from None
    except ValidationError as error:
        raise DatasetError(f"{path} is not a usable manifest: {_first_error(error)}; convert again") from None
    if not manifest.accepted:
        raise GateError(
            f"{path} says accepted: false (too few train samples: {manifest.counts.train}); the tars are kept "
            "but not indexed. Lower minimum_train_samples or download more, then convert again"
        )
    if not manifest.output_shards:
        raise DatasetError(f"{path} lists no output shard: there is nothing to index; check what was converted")
    return manifest


def _first_error(error: ValidationError) -> str:
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"])
    return f"{place}: {fault['msg']}" if place else fault["msg"]
