"""Receipt of a checkpoint import, which shows that the checkpoint was already imported."""

from pathlib import Path

from tasks.contracts.errors import PipelineError
from tasks.io.receipts import Receipt, read_receipt
from tasks.megatron.settings import CheckpointSettings
from tasks.megatron.verify import check_imported

STAGE_VERSION = 1
RECEIPT = "receipt.json"
_WHAT_COUNTS = {"name", "hf_model", "hf_revision", "torch_dtype", "tp", "pp", "ep", "etp", "trust_remote_code"}


def finished_import(root: Path, checkpoint: CheckpointSettings, folder: Path) -> Path | None:
    """Return the checkpoint if a receipt with the same settings exists and its files are complete, else None."""
    receipt = read_receipt(folder / RECEIPT)
    if checkpoint.overwrite or receipt is None or not receipt.is_for(_work(checkpoint)):
        return None
    try:
        return check_imported(root, checkpoint)
    except PipelineError:
        return None


def leave_receipt(checkpoint: CheckpointSettings, folder: Path) -> None:
    """Write the receipt of a complete import."""
    _work(checkpoint).write(folder / RECEIPT)


def _work(checkpoint: CheckpointSettings) -> Receipt:
    settings = checkpoint.model_dump(mode="json", include=_WHAT_COUNTS)
    return Receipt(stage="import-checkpoint", stage_version=STAGE_VERSION, settings=settings)
