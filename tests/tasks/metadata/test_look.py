"""Results and errors of the metadata check."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.contracts.errors import MetadataError
from tasks.contracts.settings import Finding
from tasks.downloader_startup.addresses import kind_of_host
from tasks.metadata import look as module
from tasks.metadata.look import LOOK_NAME, MEANINGS, REFUSED, look_at, look_once, refuse_findings

GOOD = ("https://example.org/a.jpg", b"a caption", [[0.1, 0.1, 0.5, 0.5]])
Row = tuple[str | None, bytes | None, list[list[float | None] | None] | None]


def write(path: Path, rows: Sequence[Row]) -> Path:
    """Write a metadata file; captions are bytes, so that they can be invalid UTF-8."""
    captions = pa.array([row[1] for row in rows], pa.binary())
    text = pa.StringArray.from_buffers(len(rows), *captions.buffers()[1:], captions.buffers()[0])
    boxes = pa.array([row[2] for row in rows], pa.list_(pa.list_(pa.float64())))
    urls = pa.array([row[0] for row in rows], pa.string())
    uids = pa.array([f"{number:032x}" for number in range(len(rows))])
    pq.write_table(pa.table({"uid": uids, "url": urls, "text": text, "face_bboxes": boxes}), path)
    return path


def bad(url: str | None = GOOD[0], caption: bytes | None = GOOD[1], boxes: object = GOOD[2]) -> Row:
    return url, caption, boxes  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("url_not_http", bad("file:///etc/hostname")),
        ("url_not_http", bad("ftp://example.org/a.jpg")),
        ("url_not_http", bad(None)),
        ("url_not_http", bad("")),
        ("host_loopback", bad("http://127.0.0.1:8000/a.jpg")),
        ("host_loopback", bad("HTTP://user:pw@LOCALHOST/a.jpg")),
        ("host_loopback", bad("http://[::1]:80/a.jpg")),
        ("host_private", bad("http://10.1.2.3/a.jpg")),
        ("host_private", bad("http://192.168.0.1?x")),
        ("host_private", bad("http://169.254.169.254/latest")),
        ("boxes_null", bad(boxes=None)),
        ("box_never_blurred", bad(boxes=[[0.5, 0.1, 0.1, 0.5]])),
        ("box_never_blurred", bad(boxes=[[0.1, 0.5, 0.5, 0.5]])),
        ("box_never_blurred", bad(boxes=[[100.0, 100.0, 200.0, 200.0]])),
        ("box_broken", bad(boxes=[[0.1, 0.1, 0.5]])),
        ("box_broken", bad(boxes=[[0.1, 0.1, 0.5, float("nan")]])),
        ("box_broken", bad(boxes=[[0.1, 0.1, 0.5, float("inf")]])),
        ("box_broken", bad(boxes=[[0.1, 0.1, 0.5, None]])),
        ("box_broken", bad(boxes=[None])),
        ("box_over_the_edge", bad(boxes=[[-0.1, 0.0, 0.5, 1.0]])),
        ("text_not_utf8", bad(caption=b"caf\xe9")),
        ("caption_missing", bad(caption=None)),
        ("caption_blank", bad(caption=b" \t\xc2\xa0")),
        ("caption_blank", bad(caption=b"")),
    ],
)
def test_each_kind_is_counted_and_its_first_row_named(tmp_path: Path, kind: Finding, row: Row) -> None:
    path = write(tmp_path / "a.parquet", [GOOD, GOOD, row, GOOD, row])
    found = look_at([path])
    assert (found.rows, found.counts) == (5, {kind: 2})
    assert found.first[kind].startswith("a.parquet, row 2")
    if kind in REFUSED:
        with pytest.raises(MetadataError, match=f"{kind}: 2 .*\n.*accepted_findings"):
            refuse_findings(found, ())
    else:
        refuse_findings(found, ())
    refuse_findings(found, (kind,))


def test_rows_are_numbered_through_the_batches_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", 3)
    rows = [GOOD] * 7 + [bad(boxes=[[0.1, 0.1, 0.2, 0.2], [0.5, 0.5, 0.1, 0.1]])]
    paths = [write(tmp_path / "a.parquet", [GOOD] * 5), write(tmp_path / "b.parquet", rows)]
    found = look_at(paths)
    assert found.rows == 13
    assert found.first == {"box_never_blurred": "b.parquet, row 7: [0.5, 0.5, 0.1, 0.1]"}


def test_metadata_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.parquet", [GOOD, bad("http://127.0.0.1/")])
    first = look_once(tmp_path, ["a.parquet"], "ab")
    with monkeypatch.context() as patched:
        patched.setattr(module, "look_at", lambda _: pytest.fail("looked again"))
        assert look_once(tmp_path, ["a.parquet"], "ab") == first
    write(tmp_path / "a.parquet", [GOOD])
    assert look_once(tmp_path, ["a.parquet"], "cd").counts == {}
    assert (tmp_path / LOOK_NAME).exists()


def test_every_kind_has_a_meaning() -> None:
    assert set(MEANINGS) >= REFUSED
    assert all(MEANINGS.values())


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("localhost", "host_loopback"),
        ("a.localhost.", "host_loopback"),
        ("%6cocalhost", "host_loopback"),
        ("127.1", "host_loopback"),
        ("2130706433", "host_loopback"),
        ("0x7f.0.0.1", "host_loopback"),
        ("0177.0.0.1", "host_loopback"),
        ("１２７.0.0.1", "host_loopback"),
        ("0.0.0.0", "host_loopback"),
        ("[::ffff:127.0.0.1]", "host_loopback"),
        ("[::ffff:10.0.0.1]", "host_private"),
        ("[64:ff9b::7f00:1]", "host_loopback"),
        ("[64:ff9b::a00:1]", "host_private"),
        ("[2002:a00:1::]", "host_private"),
        ("[64:ff9b:1::1]", "host_private"),
        ("[64:ff9b::808:808]", None),
        ("[fe80::1%eth0]", "host_private"),
        ("[fd00::1]", "host_private"),
        ("172.16.0.1", "host_private"),
        ("100.64.0.1", "host_private"),
        ("224.0.0.1", "host_private"),
        ("8.8.8.8", None),
        ("[2606:4700::1111]", None),
        ("example.org", None),
        ("10.0.0.1.example.org", None),
        ("127.0.0.1.nip.io", None),
        ("bücher.example", None),
        ("", None),
        (None, None),
    ],
)
def test_literal_addresses_in_every_spelling(host: str | None, kind: str | None) -> None:
    assert kind_of_host(host) == kind


@given(st.text(max_size=30))
def test_no_host_is_too_odd(host: str) -> None:
    assert kind_of_host(host) in (None, "host_loopback", "host_private")
