"""Status of a whole data root."""

from collections.abc import Iterator
from pathlib import Path

from tasks.contracts.errors import SettingsError
from tasks.contracts.layout import DataRoot
from tasks.io.folder_lock import holder_of
from tasks.status import dataset, raw
from tasks.status.dataset import DatasetFiles
from tasks.status.folders import list_files
from tasks.status.models import Status


def read_status(root: Path, dataset_name: str) -> Status:
    """Read the status of every stage without changing anything.

    Raises SettingsError if ``root`` is not a data root.
    """
    data = DataRoot(root)
    _validate_root(data, dataset_name)
    shards = list_files(data.shards, (".tar", "_stats.json"))
    files = DatasetFiles(data, dataset_name, shards)
    stages = (raw.metadata(data), raw.download(data, shards), raw.audit(data, shards), *dataset.stages(files))
    holders = list(_holders(data, dataset_name))
    return Status(
        root=root,
        dataset_name=dataset_name,
        finished=all(stage.state == "done" for stage in stages),
        failed=any(stage.state == "failed" for stage in stages),
        at_work=tuple(text for text, lives in holders if lives),
        died=tuple(text for text, lives in holders if not lives),
        stages=stages,
    )


def _holders(data: DataRoot, dataset_name: str) -> Iterator[tuple[str, bool]]:
    report = data.report(dataset_name).parent
    for folder in (data.metadata, data.download, data.audit, data.dataset(dataset_name) / ".prepare", report):
        found = holder_of(folder)
        if found:
            holder, lives = found
            yield f"{holder.what}: {holder}", lives


def _validate_root(data: DataRoot, dataset_name: str) -> None:
    if not data.path.is_dir():
        raise SettingsError(f"root: {data.path} is not a folder; name the data root that flows use")
    expected = (data.path / "raw", data.dataset(dataset_name))
    if any(data.path.iterdir()) and not any(folder.is_dir() for folder in expected):
        raise SettingsError(
            f"root: {data.path} holds neither raw/ nor {dataset_name}/: it is not a data root; name the folder that "
            "flows use as root, and the dataset's name if it is another"
        )
