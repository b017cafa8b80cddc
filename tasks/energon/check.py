"""The whole check of a prepared dataset: manifest, tars, index, and a pass of the loader over each split."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tasks.contracts.settings import CheckSettings
from tasks.energon.index import IndexSummary, check_index, summary
from tasks.energon.loader import LoaderSummary, check_loader
from tasks.energon.manifest import SPLITS, read_manifest
from tasks.energon.processor import ProcessorSummary, check_processor
from tasks.energon.tars import check_strays, check_tars


class CheckSummary(BaseModel):
    """A dataset that passed: what is indexed, what the loader read, and what the processor made of batches of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: IndexSummary
    loaded: tuple[LoaderSummary, ...]
    processed: ProcessorSummary | None = None

    def in_words(self) -> str:
        """What passed, in a line."""
        loaded = " and ".join(f"{one.samples:,} {one.split}" for one in self.loaded)
        tried = f"; {len(self.processed.batches)} batches went through the processor" if self.processed else ""
        return f"{self.index.shards} tars are as the manifest says; {loaded} samples loaded, each once{tried}"


def check_dataset(dataset_dir: Path, check: CheckSettings) -> CheckSummary:
    """Check a dataset without changing it (notes and logs in ``.prepare`` apart).

    Raises GateError if it was not accepted, DatasetError on any deviation from its manifest.
    """
    index = check_files(dataset_dir, check)
    processed = check_processor(dataset_dir, check)
    loaded = tuple(check_loader(dataset_dir, split, check) for split in SPLITS)
    return CheckSummary(index=index, loaded=loaded, processed=processed)


def check_files(dataset_dir: Path, check: CheckSettings) -> IndexSummary:
    """The part of the check that needs no loader: manifest, tars and index. Raises as ``check_dataset``."""
    manifest = read_manifest(dataset_dir)
    check_strays(dataset_dir, manifest)
    check_tars(dataset_dir, manifest, check.verify)
    check_index(dataset_dir, manifest)
    return summary(manifest, unchanged=True)
