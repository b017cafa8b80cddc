"""Complete check of a prepared dataset: manifest, output shards, index, and one loader pass over each split."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tasks.contracts.settings import CheckSettings
from tasks.energon.index import IndexSummary, check_index, summarize
from tasks.energon.loader import LoaderSummary, check_loader
from tasks.energon.manifest import SPLITS, read_manifest
from tasks.energon.processor import ProcessorSummary, check_processor
from tasks.energon.tars import check_strays, check_tars


class CheckSummary(BaseModel):
    """Result of a passed check: the index, the loader passes, and the batches that went through the processor."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: IndexSummary
    loaded: tuple[LoaderSummary, ...]
    processed: ProcessorSummary | None = None

    def in_words(self) -> str:
        """Return a one-line summary."""
        loaded = " and ".join(f"{one.samples:,} {one.split}" for one in self.loaded)
        tried = f"; {len(self.processed.batches)} batches went through the processor" if self.processed else ""
        return f"{self.index.shards} tars match the manifest; {loaded} samples loaded, each once{tried}"


def check_dataset(dataset_dir: Path, check: CheckSettings) -> CheckSummary:
    """Check a dataset; writes only receipts and logs in ``.prepare``.

    Raises GateError if it was not accepted, DatasetError if it differs from its manifest.
    """
    index = check_files(dataset_dir, check)
    processed = check_processor(dataset_dir, check)
    loaded = tuple(check_loader(dataset_dir, split, check) for split in SPLITS)
    return CheckSummary(index=index, loaded=loaded, processed=processed)


def check_files(dataset_dir: Path, check: CheckSettings) -> IndexSummary:
    """Check manifest, output shards and index, without the loader. Raises the errors of ``check_dataset``."""
    manifest = read_manifest(dataset_dir)
    check_strays(dataset_dir, manifest)
    check_tars(dataset_dir, manifest, check.verify)
    check_index(dataset_dir, manifest)
    return summarize(manifest, unchanged=True)
