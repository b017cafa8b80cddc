"""Read-only viewer of a prepared dataset or of a folder of raw shards: ``datacomp-energon browse --dataset …``."""

import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import Field

from cli.command_line import DONE, FAILED, CommandLine, read_arguments, say
from tasks.contracts.errors import PipelineError
from tasks.contracts.layout import GivenPath, absolute, default_audit_dir
from tasks.io.files import digest
from tasks.report.catalogue import Catalogue, read_catalogue
from tasks.report.places import places_of_dataset, read_json
from tasks.report.raw_folder import read_raw_folder

_LOOPBACK = ["127.0.0.1", "localhost"]


class BrowseCommandLine(CommandLine):
    """Browse samples in a browser: search, filter, page. Changes nothing; stop with Ctrl-C."""

    dataset: GivenPath = Field(description="Folder of a prepared dataset, or of raw shards.")
    shards_dir: GivenPath | None = Field(
        None, description="Raw shards that the dataset was made from; null: raw/shards beside it."
    )
    host: str = Field("127.0.0.1", description="Address to listen on; by default only this machine can connect.")
    port: int = Field(8800, ge=0, le=65535, description="Port to listen on; 0: a free one.")


def open_catalogue(dataset: Path, shards_dir: Path | None) -> tuple[Catalogue, str]:
    """Read the catalogue of a folder and return it with a version string for caching. Raises PipelineError."""
    dataset = absolute(dataset)
    if (dataset / ".prepare").is_dir():
        places = places_of_dataset(dataset, absolute(shards_dir) if shards_dir else None)
        return read_catalogue(places), str(read_json(places.plan)["identity"])[:12]
    catalogue = read_raw_folder(dataset, default_audit_dir(dataset))
    return catalogue, digest([(str(tar), tar.stat().st_mtime_ns) for tar in catalogue.tars])[:12]


def serve(arguments: BrowseCommandLine) -> None:
    """Serve the viewer until Ctrl-C. Raises PipelineError."""
    with ThreadPoolExecutor(1) as reader:
        opening = reader.submit(open_catalogue, arguments.dataset, arguments.shards_dir)
        # Import while the tables are read: each takes a third of a second, and the viewer should open within one.
        import uvicorn

        from tasks.report.viewer import viewer

        catalogue, version = opening.result()
    try:
        listener = socket.create_server((arguments.host, arguments.port))
    except OSError as error:
        why = str(error.strerror).partition(" (")[0]
        raise PipelineError(
            f"{arguments.host}:{arguments.port} cannot be listened on ({why}); give another --port (0: a free one) or "
            "--host"
        ) from None
    app = viewer(catalogue, arguments.dataset.name, version, [*_LOOPBACK, arguments.host])
    sys.stdout.write(f"Viewer: http://{arguments.host}:{listener.getsockname()[1]}/\nStop with Ctrl-C.\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False)).run(sockets=[listener])


def main(arguments: list[str]) -> None:
    """Read the command line and serve the viewer."""
    options = read_arguments(BrowseCommandLine, arguments, "browse")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        serve(options)
    except KeyboardInterrupt:
        raise SystemExit(DONE) from None
    except PipelineError as error:
        say(str(error))
        raise SystemExit(FAILED) from None
