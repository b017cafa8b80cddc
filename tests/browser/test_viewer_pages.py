"""The viewer in a real browser, started as a user starts it."""

import re
import signal
import subprocess
import sys
import time

import pytest


@pytest.fixture(scope="module")
def address(data, chromium, tmp_path_factory):
    log = tmp_path_factory.mktemp("browse") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "cli", "browse", "--dataset", str(data.dataset("energon")), "--port", "0"],
            stdout=output,
            stderr=output,
        )
    deadline = time.monotonic() + 60
    while not (found := re.search(r"Viewer: (http://127\.0\.0\.1:\d+/)", log.read_text(encoding="utf-8"))):
        assert process.poll() is None and time.monotonic() < deadline, log.read_text(encoding="utf-8")
        time.sleep(0.05)
    yield found[1]
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert "Traceback" not in log.read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", ["desk", "phone"])
def test_viewer_is_readable_on_every_screen(new_page, address, contrast, troubles, screenshots, screen, scheme):
    page = new_page(screen, scheme)
    for name, path in (("browse", "?text=picture"), ("sample", "sample/8")):
        page.goto(address + path)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=screenshots / f"{name}-{screen}-{scheme}.png")
        assert page.evaluate(contrast) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert troubles == []


def test_samples_are_searched_filtered_and_opened(new_page, address, troubles):
    page = new_page()
    page.goto(address)
    assert page.locator(".found b").inner_text() == "59"
    page.get_by_label("Split").select_option("rejects")
    page.get_by_role("button", name="Show").click()
    assert page.locator(".found b").inner_text() == "3"
    page.goto(address)
    page.keyboard.press("/")
    page.keyboard.type("two faces")
    page.keyboard.press("Enter")
    page.wait_for_url("**text=two+faces**")
    assert page.locator(".card").count() == 1
    page.locator(".card a").click()
    page.wait_for_load_state()
    assert "two faces" in page.locator("blockquote").inner_text()
    assert page.locator(".one img").evaluate("(image) => image.naturalWidth") == 128
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**/sample/9")
    assert troubles == []


def test_hostile_texts_do_nothing(new_page, address, troubles):
    page = new_page()
    page.goto(address + "sample/1")
    page.wait_for_timeout(200)
    assert page.title() == "0000000001 in energon"
    assert page.locator("main script").count() == 0
    assert troubles == []
