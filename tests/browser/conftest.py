"""Debian's Chromium, headless, and pages that keep note of everything that goes wrong in them."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.report.conftest import catalogue, data, report  # noqa: F401

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENS = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 740}}


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser. Without one the tests are skipped; where CI is set they fail."""
    if CHROMIUM is None:
        reason = "no Chromium here: tests/browser/install.sh installs Debian's"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def troubles() -> list[str]:
    """Console errors, exceptions, and requests to elsewhere, of all pages of a test."""
    return []


@pytest.fixture
def new_page(chromium: Any, troubles: list[str]) -> Iterator[Callable[..., Any]]:
    """Open a page on a screen ("desk" or "phone") in a colour scheme."""
    contexts = []

    def open_page(screen: str = "desk", scheme: str = "light", **options: Any) -> Any:
        context = chromium.new_context(viewport=SCREENS[screen], color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: _note_foreign(request.url, troubles))
        page.on("dialog", lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        return page

    yield open_page
    for context in contexts:
        context.close()


def _note_foreign(url: str, troubles: list[str]) -> None:
    if not url.startswith(("file:", "data:", "http://127.0.0.1:")):
        troubles.append(f"request to {url}")


@pytest.fixture(scope="session")
def contrast() -> str:
    """A function that lists texts that are hard to read."""
    return (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: the folder that CI keeps, or a temporary one."""
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
