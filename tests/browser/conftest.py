"""Debian's Chromium, headless, and pages that record every error."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.headless import CHROMIUM, SCREENS, headless
from tests.tasks.report.conftest import catalogue, data, report  # noqa: F401


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Start the browser. If none is installed, skip the tests, or fail in CI.

    Its scope is one module: Playwright keeps an event loop running, which Prefect would mistake for an async caller.
    """
    if CHROMIUM is None:
        reason = "no Chromium here: tests/browser/install.sh installs Debian's"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with headless(CHROMIUM) as browser:
        yield browser


@pytest.fixture
def troubles() -> list[str]:
    """Console errors, exceptions, and requests to other hosts, from all pages of a test."""
    return []


@pytest.fixture
def new_page(chromium: Any, troubles: list[str]) -> Iterator[Callable[..., Any]]:
    """Return a function that opens a page on a screen ("desk" or "phone") in a colour scheme."""
    contexts = []

    def open_page(screen: str = "desk", scheme: str = "light", **options: Any) -> Any:
        context = chromium.new_context(viewport=SCREENS[screen], color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: _note_error(message, troubles))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: _note_foreign(request.url, troubles))
        page.on("dialog", lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        return page

    yield open_page
    for context in contexts:
        context.close()


def _note_error(message: Any, troubles: list[str]) -> None:
    if message.type == "error":
        troubles.append(f"{message.text} ({message.location['url']})")


def _note_foreign(url: str, troubles: list[str]) -> None:
    if not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:")):
        troubles.append(f"request to {url}")


@pytest.fixture(scope="session")
def contrast() -> str:
    """A JavaScript function that lists texts with low contrast."""
    return (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for screenshots: the one that CI keeps, or a temporary one."""
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
