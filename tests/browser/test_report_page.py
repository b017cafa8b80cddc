"""The report in a real browser, opened from disk."""

import pytest


def cards(page, sheet="#contact-sheet"):
    return page.locator(f"{sheet} .card:visible")


@pytest.fixture
def page(new_page, report):
    page = new_page()
    page.goto(report.as_uri())
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", ["desk", "phone"])
def test_report_is_readable_on_every_screen(new_page, report, contrast, troubles, screenshots, screen, scheme):
    page = new_page(screen, scheme)
    page.goto(report.as_uri())
    page.screenshot(path=screenshots / f"report-{screen}-{scheme}.png", full_page=True)
    assert page.evaluate(contrast) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.title() == "energon: dataset report"
    broken = "[...document.images].filter((i) => !i.naturalWidth && i.getClientRects().length).length"
    assert page.evaluate(broken) == 0
    assert page.locator("svg.plot").count() == 6
    assert troubles == []


def test_contact_sheet_is_searched_filtered_and_paged(page, troubles):
    status = page.locator("#contact-sheet output")
    assert cards(page).count() == 24
    assert status.inner_text() == "56 found, page 1 of 3"
    page.get_by_role("search", name="Search the contact sheet").get_by_label("Next page").click()
    page.get_by_role("search", name="Search the contact sheet").get_by_label("Next page").click()
    assert status.inner_text() == "56 found, page 3 of 3"
    assert cards(page).count() == 8
    page.locator("#contact-sheet select").select_option("val")
    assert set(cards(page).locator(".tag").all_inner_texts()) == {"val"}
    page.locator("#contact-sheet select").select_option("")
    page.locator("#contact-sheet input").fill("TWO FACES")
    assert status.inner_text() == "1 found, page 1 of 1"
    assert cards(page).count() == 1
    page.locator("#contact-sheet input").fill("no sample says this")
    assert cards(page).count() == 0
    assert troubles == []


def test_rejects_are_filtered_by_reason(page, troubles):
    page.locator("#reject-sheet select").select_option("empty_caption")
    assert cards(page, "#reject-sheet").count() == 1
    assert "the caption is blank" in cards(page, "#reject-sheet").inner_text()
    assert troubles == []


def test_everything_is_reached_with_the_keyboard(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
    button = page.get_by_role("search", name="Search the contact sheet").get_by_label("Next page")
    page.locator("#contact-sheet input").focus()
    for _ in range(4):
        page.keyboard.press("Tab")
        if button.evaluate("(element) => element === document.activeElement"):
            break
    page.keyboard.press("Enter")
    assert "page 2" in page.locator("#contact-sheet output").inner_text()
    assert button.evaluate("(element) => getComputedStyle(element).outlineStyle") == "solid"


def test_hostile_texts_do_nothing(page, troubles):
    page.wait_for_timeout(200)
    assert page.title() == "energon: dataset report"
    assert page.locator("#contact-sheet script").count() == 0
    assert troubles == []


def test_without_scripts_all_samples_are_shown(new_page, report):
    page = new_page(java_script_enabled=False)
    page.goto(report.as_uri())
    assert cards(page).count() == 56
