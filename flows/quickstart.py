"""quickstart: the whole pipeline on this machine in a few minutes, with its own small web server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from prefect import flow

from demo.hub import serve_hub
from demo.site import demo_web
from demo.slice import slice_yaml
from flows.prepare import PrepareResult, prepare_datacomp
from tasks.contracts.layout import GivenPath, absolute
from tasks.io.files import write_bytes
from tasks.io.proxies import changed_environment, exempt_loopback
from tasks.running.outcomes import ends_in_words

SLICE_FILE = "quickstart-slice.yaml"


@flow(name="quickstart", flow_run_name="quickstart in {root}")
@ends_in_words
def quickstart(root: GivenPath = Path("quickstart-data")) -> PrepareResult:
    """Prepare a dataset of 2,000 web pictures that a web on the loopback interface serves, faults included.

    It runs through the same flow and code as a real slice. Started again, it goes on where it was ended.

    Args:
        root: Data root; made if it is not there.
    """
    root = absolute(root)
    with _small_web(root) as slice_file:
        return prepare_datacomp(root, str(slice_file))


@contextmanager
def _small_web(root: Path) -> Iterator[Path]:
    """Serve pictures and a metadata hub while the block runs; yield the slice file."""
    with (
        demo_web(root / "quickstart-web") as web,
        serve_hub(web.hub_folder, web.slice.repo_id, web.slice.revision) as hub,
    ):
        slice_file = root / SLICE_FILE
        write_bytes(slice_file, yaml.safe_dump(slice_yaml(web.slice), sort_keys=False).encode())
        exempt_loopback()
        with changed_environment(HF_ENDPOINT=hub.url):
            yield slice_file


if __name__ == "__main__":
    from cli.program import run_program

    run_program(quickstart)
