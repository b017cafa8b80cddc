"""The report: correct, safe, and the same bytes for the same data."""

import base64
import hashlib
import html
import re

import pytest

from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import ReportSettings
from tasks.report.facts import gather_facts
from tasks.report.places import places_in_root
from tasks.report.report import write_report
from tests.tasks.raw_shards import uid_of
from tests.tasks.report.dataset import OPTED_OUT, PLACEHOLDER, prepared_root


@pytest.fixture(scope="module")
def page(report):
    return report.read_text(encoding="utf-8")


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def test_facts_are_those_of_the_samples_in_the_dataset(catalogue):
    facts = gather_facts(catalogue)
    assert len(facts.rows) == 56
    assert facts.hosts[0] == ("example.org", 54)
    assert dict(facts.hosts)["evil.example"] == 1
    assert [(one.sha256, one.samples) for one in facts.repeated] == [(PLACEHOLDER, 3)]
    assert catalogue.table["uid"][facts.repeated[0].row].as_py() == uid_of(20)
    assert (facts.samples_with_faces, facts.faces) == (1, 2)
    assert facts.rotated == (("Rotated 90 CW", 1),)
    assert [catalogue.table["uid"][row].as_py() for row, _ in facts.rotated_rows] == [uid_of(6)]


def test_every_url_and_loss_is_in_the_funnel(page):
    text = text_of(page)
    for line in (
        "Attempted URLs 69 100.0%",
        "lost: Image decoding error 3",
        "Downloaded 60",
        "Samples read 60",
        "lost: invalid_sample 2",
        "lost: empty_caption 1",
        "lost: excluded_uid 1",
    ):
        assert line in text


def test_odd_pictures_are_counted_and_their_scope_is_stated(page):
    text = text_of(page)
    assert "56 of 56 pictures of the dataset" in text
    assert "flat grey band at the bottom (a truncated file that a decoder filled) 1 1.8% of 56 checked" in text
    assert "stored without their EXIF rotation 1 1.8% of all 56" in text
    assert "caption with a chat marker, such as <|im_end|> or <image> 0 0.0% of all 56" in text


def test_nothing_is_loaded_from_elsewhere_and_hashes_of_the_policy_hold(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for tag in ("style", "script"):
        inline = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(inline) == 1
        digest = base64.b64encode(hashlib.sha256(inline[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    for attribute, value in re.findall(r'\s(src|href|xlink:href|action|style)="([^"]*)"', page):
        assert attribute != "style"
        assert value.startswith(("#", "data:")), value


def test_texts_of_the_web_are_escaped(page):
    assert "<script>document.title" not in page
    assert "&lt;script&gt;document.title" in page
    assert 'onerror="' not in page
    assert "javascript:alert" in page  # shown as text, not in an attribute
    assert "\u202e" not in page
    assert not re.search(r'="[^"]*javascript:', page)
    assert "<b>$x" not in page


def test_samples_that_opted_out_are_never_shown(page):
    assert uid_of(OPTED_OUT) not in page
    assert "please do not use this" not in page
    assert uid_of(OPTED_OUT + 1) in page


def test_rejects_are_shown_with_their_reason(page):
    rejects = text_of(page[page.index('id="reject-sheet"') :])
    assert "empty_caption : the caption is blank" in rejects or "empty_caption: the caption is blank" in rejects
    assert "a lone surrogate" in rejects


def test_equal_data_and_settings_give_equal_bytes(data, report, tmp_path):
    again = tmp_path / "again.html"
    write_report(places_in_root(data, "energon"), again, ReportSettings())
    assert again.read_bytes() == report.read_bytes()


def test_settings_bound_what_is_shown_and_looked_at(data, tmp_path):
    few = ReportSettings(contact_sheet=8, reject_sheet=2, pictures_looked_at=5)
    summary = write_report(places_in_root(data, "energon"), tmp_path / "few.html", few)
    page = (tmp_path / "few.html").read_text(encoding="utf-8")
    assert summary.pictures_looked_at == 5
    sheet = page[page.index('id="contact-sheet"') : page.index('id="rejects"')]
    assert (sheet.count('data-choice="train"'), sheet.count('data-choice="val"')) == (6, 2)
    assert page[page.index('id="reject-sheet"') :].count("data-choice=") == 2


def test_without_the_downloaders_tables_and_an_audit_it_says_what_is_not_known(tmp_path):
    data = prepared_root(tmp_path, tables=False)
    for path in data.audit.glob("*.json"):
        path.unlink()
    (tmp_path / "other").mkdir()
    write_report(places_in_root(DataRoot(tmp_path), "energon"), tmp_path / "page.html", ReportSettings())
    text = text_of((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "hosts, source hashes, faces and orientation are not known" in text
    assert "These shards were not audited" in text
