"""Output of the real img2dataset: samples as the official downloader makes them."""

import io
import json
import tarfile
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from tasks.images.download import DownloadSummary
from tasks.io.receipts import read_receipt
from tests.tasks.images.conftest import BOX, Slice
from tests.tasks.images.web import picture

pytestmark = pytest.mark.xdist_group("images")

JSON_KEYS = (
    "uid face_bboxes caption url key status error_message width height original_width original_height exif sha256"
)


def samples(slice_: Slice) -> Iterator[tuple[dict[str, object], bytes, str]]:
    """Yield JSON, JPEG and TXT of every sample in every shard."""
    for path in sorted(slice_.root.shards.glob("*.tar")):
        with tarfile.open(path) as tar:
            members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
        for key in sorted({name.split(".")[0] for name in members}):
            text = members[f"{key}.txt"].decode()
            yield json.loads(members[f"{key}.json"]), members[f"{key}.jpg"], text


def test_counts_are_those_of_the_web(finished: tuple[Slice, DownloadSummary]) -> None:
    summary = finished[1]
    assert summary.new_shards == 3
    assert summary.totals.model_dump() == {
        "shards": 3,
        "attempts": 40,
        "successes": 32,
        "failed_to_download": 4,
        "failed_to_resize": 4,
        "failures": {"HTTP Error 404: Not Found": 4, "Image decoding error": 4},
    }


def test_json_keys_come_in_the_official_order(finished: tuple[Slice, DownloadSummary]) -> None:
    assert {" ".join(meta) for meta, _, _ in samples(finished[0])} == {JSON_KEYS}


def test_uid_caption_and_boxes_are_those_of_the_row(finished: tuple[Slice, DownloadSummary]) -> None:
    rows = {row["uid"]: row for row in finished[0].rows}
    found = list(samples(finished[0]))
    assert len({meta["uid"] for meta, _, _ in found}) == 32
    for meta, _, text in found:
        row = rows[meta["uid"]]
        assert (meta["url"], meta["face_bboxes"], text) == (row["url"], row["face_bboxes"], row["text"])


def test_faces_are_blurred_and_the_rest_is_not(finished: tuple[Slice, DownloadSummary]) -> None:
    for meta, jpeg, _ in samples(finished[0]):
        inside, outside = change(jpeg, row_number(meta))
        if meta["face_bboxes"]:
            assert inside > 10 and outside < 2
        else:
            assert inside < 2 and outside < 2


def test_only_bigger_pictures_are_resized(finished: tuple[Slice, DownloadSummary]) -> None:
    for meta, jpeg, _ in samples(finished[0]):
        assert (meta["width"], meta["height"]) == Image.open(io.BytesIO(jpeg)).size == (64, 48)
        assert meta["original_width"] == (128 if row_number(meta) > 30 else 64)


def row_number(meta: dict[str, object]) -> int:
    return int(str(meta["url"]).rsplit("/", 1)[1])


def change(jpeg: bytes, number: int) -> tuple[float, float]:
    """Return the mean brightness difference between a stored picture and its source: in the face box, far from it."""
    stored = Image.open(io.BytesIO(jpeg)).convert("L")
    source = Image.open(io.BytesIO(picture(number))).convert("L").resize(stored.size, Image.Resampling.BOX)
    difference = np.abs(np.asarray(stored, float) - np.asarray(source, float))
    height, width = difference.shape
    box = [int(BOX[0] * width), int(BOX[1] * height), int(BOX[2] * width), int(BOX[3] * height)]
    inside = difference[box[1] + 4 : box[3] - 4, box[0] + 4 : box[2] - 4].mean()
    return float(inside), float(difference[: height // 10].mean())


def test_receipt_says_what_went_in_and_came_out(finished: tuple[Slice, DownloadSummary]) -> None:
    slice_, summary = finished
    receipt = read_receipt(slice_.root.download / "receipt.json")
    assert receipt is not None
    assert receipt.inputs["metadata_sha256"] == slice_.source.metadata_sha256
    assert receipt.inputs["rows"] == {"a.parquet": 25, "b.parquet": 15}
    assert [sorted(downloader) for downloader in receipt.inputs["downloaders"]] == [["environment", "lock"]]
    assert receipt.settings["image_size"] == 64
    assert receipt.counts == summary.totals.model_dump()


def test_shard_folder_holds_nothing_but_shards(finished: tuple[Slice, DownloadSummary]) -> None:
    names = {f"0000000{number}{end}" for number in range(3) for end in (".tar", ".parquet", "_stats.json")}
    assert {path.name for path in finished[0].root.shards.iterdir()} == names
