"""The scaled decode accepts a picture exactly when a full decode does."""

import io
import random
import tarfile

import pytest
from PIL import Image

from tasks.convert import jpeg
from tasks.convert.jpeg import MAX_PIXELS, check_jpeg
from tests.golden import FOLDER
from tests.tasks.convert.defects import BOMB
from tests.tasks.raw_shards import picture

BATCHES, BATCH = 20, 1_000
"""20,000 damaged pictures in all; in batches, so that several workers share them."""


def decodes_in_full(data):
    """Return Pillow's verdict: whether it is a JPEG that loads to its end, and no decompression bomb."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.format != "JPEG":
                return False
            image.load()
    except Exception:
        return False
    return True


def base_pictures(rng):
    """Return baseline and progressive JPEGs; every subsampling, grey and CMYK; with and without restart markers."""
    pictures = []
    for progressive in (False, True):
        for mode, more in [("RGB", {"subsampling": n}) for n in range(3)] + [("L", {}), ("CMYK", {})]:
            for restart in ({}, {"restart_marker_blocks": 2}):
                for quality in (50, 95):
                    size = (rng.randint(9, 70), rng.randint(9, 70))
                    options = {"progressive": progressive, "quality": quality, **more, **restart}
                    pictures.append(picture(rng.randrange(1000), size, mode, **options))
    return pictures


def cut(rng, data, others):
    return data[: rng.randrange(len(data))]


def cut_at_the_end(rng, data, others):
    return data[: -rng.randint(1, 4)]


def flipped(rng, data, others):
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def flipped_in_the_entropy_stream(rng, data, others):
    changed, start = bytearray(data), data.index(b"\xff\xda")
    changed[rng.randrange(start, len(data))] = rng.choice([0, 0xFF, 0xD0, 0xD9, rng.randrange(256)])
    return bytes(changed)


def without_a_piece(rng, data, others):
    start, end = sorted(rng.randrange(len(data)) for _ in range(2))
    return data[:start] + data[end:]


def spliced(rng, data, others):
    other = rng.choice(others)
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def with_rubbish(rng, data, others):
    place = rng.randrange(len(data))
    return data[:place] + rng.randbytes(rng.randint(1, 50)) + data[place + rng.randint(0, 50) :]


DAMAGES = [cut, cut_at_the_end, flipped, flipped_in_the_entropy_stream, without_a_piece, spliced, with_rubbish]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_pictures_get_the_verdict_of_a_full_decode(batch):
    rng = random.Random(batch)
    pictures = base_pictures(rng)
    sound = 0
    for number in range(BATCH):
        data = rng.choice(DAMAGES)(rng, rng.choice(pictures), pictures)
        expected = decodes_in_full(data)
        sound += expected
        assert (check_jpeg(data).fault is None) == expected, f"batch {batch}, picture {number}"
    assert 0.1 < sound / BATCH < 0.9


def golden_pictures():
    for path in sorted(FOLDER.glob("*/*.tar")):
        with tarfile.open(path) as tar:
            for info in tar:
                if info.name.endswith(".jpg"):
                    yield tar.extractfile(info).read()


def test_golden_and_defect_shards_get_the_verdict_of_a_full_decode():
    verdicts = [(check_jpeg(data).fault is None, decodes_in_full(data)) for data in golden_pictures()]
    assert all(ours == full for ours, full in verdicts)
    assert {full for _, full in verdicts} == {True, False} and len(verdicts) > 150


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"mode": "L"}, {"mode": "CMYK"}], ids=str)
@pytest.mark.parametrize("size", [(1, 1), (1, 300), (513, 2), (40, 32)], ids=str)
def test_sound_pictures_of_any_kind_and_shape_pass_with_their_size(size, options):
    verdict = check_jpeg(picture(1, size, **options))
    assert (verdict.width, verdict.height, verdict.fault) == (*size, None)
    assert check_jpeg(picture(1, size, **options) + b"after the end").fault is None


@pytest.mark.parametrize("progressive", [False, True])
def test_a_picture_that_lacks_its_last_bytes_is_broken(progressive):
    data = picture(3, (64, 48), progressive=progressive)
    for missing in range(1, 200):
        assert (check_jpeg(data[:-missing]).fault is None) == decodes_in_full(data[:-missing])
    assert "truncated" in check_jpeg(data[:-100]).fault


@pytest.mark.parametrize("format", ["PNG", "WEBP", "GIF", "BMP", "TIFF", "MPO"])
def test_another_format_is_no_jpeg(format):
    options = {"save_all": True, "append_images": (Image.new("RGB", (24, 18)),)} if format == "MPO" else {}
    assert "not" in check_jpeg(picture(1, format=format, **options)).fault


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff\xd8", b"\xff\xd8\xff", b"<html>", bytes(1000)])
def test_what_is_no_picture_at_all_is_no_jpeg(data):
    assert check_jpeg(data).fault


def test_a_header_that_claims_too_many_pixels_is_refused_without_decoding():
    assert f"more than {MAX_PIXELS} pixels" in check_jpeg(BOMB).fault


def test_the_limit_does_not_depend_on_what_other_libraries_do_to_pillow(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert f"more than {MAX_PIXELS} pixels" in check_jpeg(BOMB).fault


def test_a_large_picture_that_pillow_only_warns_of_passes(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1500)
    monkeypatch.setattr(jpeg, "MAX_PIXELS", 3000)
    assert check_jpeg(picture(1, (50, 40))).fault is None
    assert check_jpeg(picture(1, (80, 40))).fault
