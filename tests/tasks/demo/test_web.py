"""The demo's web server over a real socket: every URL behaves as its path says."""

import http.client
import io
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from PIL import Image

from demo import web
from demo.formats import FORMATS, encoded_picture
from demo.rows import UNREACHABLE, demo_rows
from demo.web import serve_pictures
from tasks.contracts.errors import PipelineError


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with serve_pictures() as url:
        yield url


def get(url: str, timeout: float = 20) -> tuple[bytes, http.client.HTTPMessage]:
    with urllib.request.urlopen(url, timeout=timeout) as response:
        return response.read(), response.headers


@pytest.mark.parametrize("name", FORMATS)
def test_a_picture_comes_whole_and_with_its_type(base_url: str, name: str) -> None:
    body, headers = get(f"{base_url}/{name}/flower/8.{FORMATS[name].extension}")
    assert body == encoded_picture(name, "flower", 8)
    assert headers["Content-Type"] == FORMATS[name].content_type
    assert int(headers["Content-Length"]) == len(body)


@pytest.mark.parametrize("status", [403, 404, 410, 500, 503])
def test_dead_links_answer_with_their_status(base_url: str, status: int) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(f"{base_url}/fault/{status}/7.jpg")
    assert caught.value.code == status


@pytest.mark.parametrize(
    "path", ["/jpeg/nothing/1.jpg", "/jpeg/flower/x.jpg", "/jpeg/flower/1.png", "/fault/other/1.jpg", "/jpeg/flower/²"]
)
def test_an_address_that_is_not_there_is_a_404(base_url: str, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(base_url + quote(path))


def test_a_parked_domain_answers_html_under_a_picture_s_name(base_url: str) -> None:
    body, headers = get(f"{base_url}/fault/html/7.jpg")
    assert headers["Content-Type"].startswith("text/html")
    assert body.startswith(b"<!doctype html>")


def test_an_empty_answer_has_no_bytes(base_url: str) -> None:
    assert get(f"{base_url}/fault/empty/7.jpg")[0] == b""


def test_an_announced_cut_is_noticed_by_the_client(base_url: str) -> None:
    with pytest.raises(http.client.IncompleteRead):
        get(f"{base_url}/fault/cut/7.jpg")


def test_an_unannounced_cut_looks_whole_but_does_not_decode(base_url: str) -> None:
    body, headers = get(f"{base_url}/fault/cut-unannounced/7.jpg")
    assert headers["Content-Length"] is None
    with Image.open(io.BytesIO(body)) as image, pytest.raises(OSError, match="truncated"):
        image.load()


def test_a_reset_breaks_the_connection(base_url: str) -> None:
    with pytest.raises(ConnectionResetError):
        get(f"{base_url}/fault/reset/7.jpg")


def test_a_slow_answer_outlasts_the_client_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "SLOW_SECONDS", 600)
    with serve_pictures() as url:
        with pytest.raises(TimeoutError):
            get(f"{url}/fault/slow/7.jpg", timeout=0.2)
        assert get(f"{url}/jpeg/flower/8.jpg")[0]
        waiting = threading.Thread(target=lambda: get(f"{url}/fault/slow/8.jpg", timeout=60))
        waiting.start()
        time.sleep(0.2)
    waiting.join(30)
    assert not waiting.is_alive()


def test_nobody_listens_where_connections_must_be_refused() -> None:
    with pytest.raises(urllib.error.URLError) as caught:
        get(f"{UNREACHABLE}/jpeg/flower/1.jpg")
    assert isinstance(caught.value.reason, ConnectionRefusedError)


def test_a_moved_picture_is_found_at_its_new_address(base_url: str) -> None:
    assert get(f"{base_url}/moved/flower/8.jpg")[0] == encoded_picture("jpeg", "flower", 8)


def test_an_owner_who_opts_out_says_so_in_a_header(base_url: str) -> None:
    assert "noai" in get(f"{base_url}/no-ai/flower/8.jpg")[1]["X-Robots-Tag"]


@pytest.mark.parametrize(
    ("shape", "size"), [("1x1", (1, 1)), ("16x16", (16, 16)), ("2000x8", (2000, 8)), ("6x1200", (6, 1200))]
)
def test_odd_shapes_have_their_size(base_url: str, shape: str, size: tuple[int, int]) -> None:
    with Image.open(io.BytesIO(get(f"{base_url}/shape/{shape}/3.jpg")[0])) as image:
        assert image.size == size


def test_many_addresses_share_one_notice(base_url: str) -> None:
    assert get(f"{base_url}/not-available/1.jpg")[0] == get(f"{base_url}/not-available/2.jpg")[0]


@pytest.mark.parametrize("folder", ["my pictures", "bilder-für-alle"])
def test_spaces_and_umlauts_work_for_a_client_that_quotes_them(base_url: str, folder: str) -> None:
    assert get(f"{base_url}/{quote(folder)}/flower/8.jpg")[0] == encoded_picture("jpeg", "flower", 8)


def test_every_kind_of_address_in_the_metadata_is_served(base_url: str) -> None:
    """Request one row of each folder, so that answers.py understands every path that rows.py makes."""
    some = {row.path.split("/")[1]: row.path for file in demo_rows() for row in file if row.path.startswith("/")}
    some.pop("fault")
    assert len(some) == len(FORMATS) + 6
    for path in some.values():
        assert get(base_url + quote(path))[0]


def test_the_index_page_shows_every_kind(base_url: str) -> None:
    body, headers = get(f"{base_url}/")
    assert headers["Content-Type"].startswith("text/html")
    assert body.count(b"<h2>") == 10


def test_a_client_that_goes_away_leaves_no_trace(base_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TimeoutError):
        get(f"{base_url}/fault/slow/1.jpg", timeout=0.1)
    for _ in range(5):
        connection = http.client.HTTPConnection(base_url.removeprefix("http://"), timeout=5)
        connection.request("GET", "/png/city/8.png")
        connection.close()
    assert get(f"{base_url}/jpeg/flower/8.jpg")[0]
    assert capfd.readouterr() == ("", "")


def test_a_port_that_is_taken_is_named_with_the_way_out(base_url: str) -> None:
    port = base_url.rpartition(":")[2]
    with (
        pytest.raises(PipelineError, match=rf"port {port} .*end the process that holds it.*new root"),
        serve_pictures(int(port)),
    ):
        pass


def test_the_port_is_free_again_after_the_web_ends() -> None:
    with serve_pictures() as url:
        assert get(f"{url}/jpeg/flower/8.jpg")[0]
    with serve_pictures(int(url.rpartition(":")[2])) as again:
        assert again == url
