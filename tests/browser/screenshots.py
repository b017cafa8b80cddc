"""Screenshots of report and viewer: ``python -m tests.browser.screenshots --root quickstart-data --folder shots``."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import Field

from cli.command_line import FAILED, CommandLine, read_arguments, say
from cli.server import free_port
from tasks.contracts.layout import DataRoot, absolute
from tasks.report.catalogue import read_catalogue
from tasks.report.places import places_in_root
from tasks.report.viewer import viewer
from tests.browser.headless import CHROMIUM, SCREENS, headless


class ScreenshotsCommandLine(CommandLine):
    """Take screenshots of a prepared dataset's report and viewer."""

    root: Path = Field(description="Data root with a prepared dataset and its report.")
    dataset_name: str = Field("energon", description="Folder of the dataset in the data root.")
    folder: Path = Field(Path("build/screenshots"), description="Where the pictures go.")


def take(browser: Any, pages: dict[str, str], folder: Path) -> None:
    """Take a screenshot of every page on both screens (desk and phone), light and dark."""
    for scheme in ("light", "dark"):
        for screen, size in SCREENS.items():
            page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
            for name, address in pages.items():
                page.goto(address, wait_until="networkidle")
                page.screenshot(path=folder / f"{name}-{screen}-{scheme}.png", full_page=name == "report")


@contextmanager
def served(data: DataRoot, dataset_name: str) -> Iterator[str]:
    """Serve the viewer while the block runs; yield its address."""
    port = free_port()
    app = viewer(read_catalogue(places_in_root(data, dataset_name)), dataset_name, "shots", ["127.0.0.1"])
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join()


def main() -> None:
    """Read the command line and take the screenshots."""
    arguments = read_arguments(ScreenshotsCommandLine, sys.argv[1:])
    data = DataRoot(absolute(arguments.root))
    if CHROMIUM is None or not data.report(arguments.dataset_name).exists():
        say("this needs Chromium (tests/browser/install.sh) and a report (python -m flows.report)")
        raise SystemExit(FAILED)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    report = data.report(arguments.dataset_name).as_uri()
    with served(data, arguments.dataset_name) as address, headless(CHROMIUM) as browser:
        take(browser, {"report": report, "browse": address, "sample": address + "sample/1"}, arguments.folder)


if __name__ == "__main__":
    main()
