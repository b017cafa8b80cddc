"""The viewer: its search results, and that requests can read only samples."""

import io
import re

import pytest
from PIL import Image
from starlette.testclient import TestClient

from tasks.report.raw_folder import read_raw_folder
from tasks.report.viewer import viewer
from tests.tasks.raw_shards import uid_of
from tests.tasks.report.dataset import OPTED_OUT


def client_of(catalogue, hosts=("127.0.0.1",)):
    app = viewer(catalogue, "energon", "v1", list(hosts))
    return TestClient(app, base_url="http://127.0.0.1:8800", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client(catalogue):
    return client_of(catalogue)


def found(response) -> int:
    assert response.status_code == 200, response.text
    return int(re.search(r"<b>([\d,]+)</b> samples", response.text)[1].replace(",", ""))


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("", 59),
        ("?text=A+CAT", 24),
        ("?text=a+cat&shard=00000001.tar", 10),
        (f"?text={uid_of(3)}", 1),
        ("?text=0000200", 20),
        ("?text=%25", 0),
        ("?text=.*", 0),
        ("?split=rejects", 3),
        ("?split=rejects&reason=empty_caption", 1),
        ("?reason=excluded_uid", 0),
        ("?shard=nosuch.tar", 0),
        ("?smallest=170&largest=", 10),
        ("?smallest=171&largest=172", 2),
        ("?page=99", 59),
    ],
)
def test_search_and_filters(client, query, number):
    assert found(client.get("/" + query)) == number


def test_splits_add_up(client):
    assert found(client.get("/?split=train")) + found(client.get("/?split=val")) == 56


def test_captions_are_found_without_the_downloaders_tables(tmp_path):
    from tests.tasks.report.dataset import prepared_root

    data = prepared_root(tmp_path, tables=False)
    assert found(client_of(read_raw_folder(data.shards, data.audit)).get("/?text=two faces")) == 1


def test_thumbnails_and_pictures_are_jpegs_of_the_sample(client):
    for kind, side in (("thumb", 224), ("picture", None)):
        answer = client.get(f"/{kind}/3.jpg")
        assert answer.headers["content-type"] == "image/jpeg"
        with Image.open(io.BytesIO(answer.content)) as picture:
            assert picture.size == (123, 90)
            assert side is None or max(picture.size) <= side


@pytest.mark.parametrize("kind", ["thumb", "picture"])
def test_bytes_that_are_no_jpeg_are_never_sent(client, kind):
    answer = client.get(f"/{kind}/12.jpg")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert "no picture" in answer.text


def test_texts_of_the_web_are_escaped(client):
    for path in ("/", "/sample/1"):
        text = client.get(path).text
        assert "<script>document.title" not in text
        assert "&lt;script&gt;document.title" in text


def test_search_text_is_escaped(client):
    text = client.get("/", params={"text": '"><script>alert(1)</script>'}).text
    assert "<script>alert" not in text


def test_a_sample_that_opted_out_cannot_be_looked_at(client):
    for path in (f"/sample/{OPTED_OUT}", f"/thumb/{OPTED_OUT}.jpg", f"/picture/{OPTED_OUT}.jpg"):
        assert client.get(path).status_code == 404
    assert found(client.get(f"/?text={uid_of(OPTED_OUT)}")) == 0


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/thumb/..%2f..%2fopt-outs.txt",
        "/thumb/-1.jpg",
        "/thumb/60.jpg",
        "/picture/99999999999999999999999999.jpg",
        "/pages/browse.html",
        "/sample/00000000.tar",
        "/opt-outs.txt",
    ],
)
def test_no_path_reaches_the_file_system(client, path):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("query", ["page=0", "page=x", "split=none", "smallest=-1", "largest=1e9", "text=" + "x" * 201])
def test_invalid_searches_get_an_explanation(client, query):
    answer = client.get("/?" + query)
    assert answer.status_code == 400
    assert answer.text.startswith("Invalid search: ")
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8800", "127.0.0.1.evil.example", ""])
def test_foreign_host_names_are_refused(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 400


def test_every_answer_forbids_other_sources_frames_and_guessing(client):
    for path in ("/", "/sample/3", "/thumb/3.jpg", "/nosuch"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_it_is_read_only(client, method):
    assert getattr(client, method)("/").status_code == 405
