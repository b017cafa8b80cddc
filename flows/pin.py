"""pin-slice: make a slice file from a repository, a revision and file names."""

from dataclasses import replace
from pathlib import Path

from prefect import flow
from pydantic import BaseModel, ConfigDict

from tasks.contracts.layout import DataRoot, GivenPath, absolute
from tasks.metadata.hub import Source
from tasks.metadata.pin import check_request, resolve_commit, write_slice
from tasks.metadata.task import pin_metadata_file
from tasks.running.outcomes import ends_in_words, run_task


class PinResult(BaseModel):
    """A written slice file and its contents."""

    model_config = ConfigDict(frozen=True)

    slice_file: Path
    name: str
    revision: str
    files: int
    rows: int
    metadata_sha256: str

    def in_words(self) -> str:
        """Summarize the pinned files in one line."""
        return f"{self.slice_file} pins {self.files} files, {self.rows:,} rows, at commit {self.revision}"


@flow(name="pin-slice", flow_run_name="pin {name} of {repo_id}")
@ends_in_words
def pin_slice(
    root: GivenPath,
    slice_file: GivenPath,
    name: str,
    files: list[str],
    repo_id: str = "mlfoundations/datacomp_1b",
    revision: str = "main",
) -> PinResult:
    """Fetch metadata files, and write the slice file that pins them by commit, size, SHA-256 and rows.

    Args:
        root: Data root; the files go to raw/metadata in it, where prepare-datacomp finds them.
        slice_file: Where the slice goes (*.yaml); one that says something else is left alone.
        name: Name of the slice.
        files: Names of the Parquet files in the repository.
        repo_id: Dataset repository on the hub.
        revision: Branch, tag or commit; the slice pins the commit that it names now.
    """
    check_request(name, repo_id, files)
    path = absolute(slice_file)
    source = Source(repo_id, revision)
    source = replace(source, revision=resolve_commit(source, files[0]))
    data = DataRoot(absolute(root))
    pins = [run_task(pin_metadata_file, data.metadata, source, file) for file in files]
    slice_ = write_slice(path, name, source, pins)
    return PinResult(
        slice_file=path,
        name=slice_.name,
        revision=slice_.revision,
        files=len(slice_.files),
        rows=slice_.expected_attempts,
        metadata_sha256=slice_.metadata_sha256,
    )


if __name__ == "__main__":
    from cli.program import run_program

    run_program(pin_slice)
