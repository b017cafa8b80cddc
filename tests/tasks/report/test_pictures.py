"""Pictures that are classified as odd, and bytes that are not a picture."""

import io

import numpy as np
import pytest
from PIL import Image

from tasks.report.pictures import find_oddities, read_samples, thumbnail
from tests.tasks.raw_shards import picture
from tests.tasks.report.dataset import banded, jpeg, noise


def white_below() -> bytes:
    """Return a product on a white background: its lower part is flat, but not because of a decoder."""
    pixels = noise()
    pixels[32:] = 255
    return jpeg(pixels)


@pytest.mark.parametrize(
    ("jpg", "expected"),
    [
        (picture(1, (200, 150)), []),
        (jpeg(noise()), []),
        (white_below(), []),
        (picture(1, (200, 150), mode="L"), ["grey"]),
        (jpeg(np.full((50, 50, 3), 128)), ["grey", "uniform"]),
        (jpeg(np.full((50, 50, 3), (10, 200, 40))), ["uniform"]),
        (banded(), ["banded"]),
        (b"", ["undecodable"]),
        (b"GIF89a", ["undecodable"]),
        (jpeg(noise())[:400], ["undecodable"]),
    ],
)
def test_odd_pictures(jpg, expected):
    assert find_oddities(jpg) == expected


def test_a_picture_of_one_colour_and_a_small_speck_is_uniform_or_not_by_its_spread():
    pixels = np.full((100, 100, 3), 90)
    pixels[:40, :40] = 250
    assert find_oddities(jpeg(pixels)) == ["grey"]


def test_thumbnail_is_a_small_jpeg_that_keeps_the_aspect():
    with Image.open(io.BytesIO(thumbnail(picture(3, (640, 320)), 100))) as small:
        assert (small.format, small.size) == ("JPEG", (100, 50))


def test_other_formats_are_not_decoded():
    assert thumbnail(picture(1, format="PNG"), 100) is None


def test_a_tar_that_has_gone_gives_empty_samples(catalogue, tmp_path):
    from tasks.report.catalogue import Catalogue

    gone = Catalogue((tmp_path / "gone.tar",) * len(catalogue.tars), catalogue.table, planned=True)
    assert [sample.jpg for sample in read_samples(gone, [0, 50])] == [b"", b""]
