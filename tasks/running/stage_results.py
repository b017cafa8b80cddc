"""JSON files through which a stage that runs as a deployment returns its result to its parent, one per flow run.

Prefect reads its own persisted results with any serializer that a file names, so a data root could run code.
"""

import inspect
import os
from pathlib import Path
from typing import Any, Protocol

from prefect import Flow, runtime
from pydantic import TypeAdapter, ValidationError

from tasks.contracts.errors import PipelineError
from tasks.io.files import write_bytes

FOLDER_VARIABLE = "DATACOMP_STAGE_RESULTS"
"""Environment variable of a child run: the folder where its parent expects the result."""


class Dumpable(Protocol):
    """A pydantic model."""

    def model_dump_json(self) -> str:
        """Return the model as one JSON object."""


def write_stage_result(result: Dumpable) -> None:
    """Write the result of the current flow run if its parent waits for one. Raises OSError."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and runtime.flow_run.id and runtime.flow_run.id == os.environ.get("PREFECT__FLOW_RUN_ID"):
        path = _path(Path(folder), runtime.flow_run.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, result.model_dump_json().encode())


def read_stage_result(folder: Path, flow: Flow[..., Any], run_id: str) -> Any:
    """Return the result of a run of ``flow`` as the flow's return type. Raises PipelineError without a valid one."""
    path = _path(folder, run_id)
    expected = inspect.signature(flow.fn).return_annotation
    try:
        return TypeAdapter(expected).validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError) as error:
        raise PipelineError(
            f"{flow.name}: its flow run {run_id} completed, but {path} holds no valid result ({error}); run the "
            "pipeline again: the stage finds its work finished"
        ) from None


def _path(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}.json"
