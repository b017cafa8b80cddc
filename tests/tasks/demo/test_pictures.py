"""The generated pictures: deterministic, decodable, correctly described."""

import io

import pytest
from PIL import Image

from demo.formats import FORMATS, ORIENTATION, encoded_picture
from demo.pictures import KINDS, picture


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_painted_in_the_size_it_was_described_with_and_is_not_blank(kind: str) -> None:
    described = picture(kind, 5)
    painted = described.paint()
    assert painted.size == described.size
    assert painted.mode == "RGB"
    assert len(painted.getcolors(maxcolors=10_000_000)) > 100


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_number_gives_the_same_picture_and_another_number_another(kind: str) -> None:
    assert picture(kind, 3).paint().tobytes() == picture(kind, 3).paint().tobytes()
    assert picture(kind, 3).caption == picture(kind, 3).caption
    assert len({picture(kind, number).caption for number in range(40)}) > 15


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("landscape", "hills"),
        ("city", "skyline"),
        ("portrait", "shirt"),
        ("flower", "flower"),
        ("fractal", "fractal"),
        ("mosaic", "mosaic"),
        ("balloons", "balloon"),
        ("waves", "ripples"),
        ("planet", "planet"),
        ("poster", "poster"),
    ],
)
def test_the_caption_tells_what_the_picture_shows(kind: str, words: str) -> None:
    assert all(words in picture(kind, number).caption.lower() for number in range(50))


def test_sizes_and_aspect_ratios_vary_and_some_pictures_must_be_shrunk() -> None:
    sizes = {picture(kind, number).size for kind in KINDS for number in range(50)}
    assert min(min(size) for size in sizes) == 200
    assert max(max(size) for size in sizes) == 1200
    assert {width > height for width, height in sizes} == {True, False}


def test_faces_lie_in_the_picture_and_only_portraits_have_them() -> None:
    for number in range(100):
        faces = picture("portrait", number).faces
        assert 1 <= len(faces) <= 3
        for left, top, right, bottom in faces:
            assert 0 <= left < right <= 1
            assert 0 <= top < bottom <= 1
        assert not any(picture(kind, number).faces for kind in KINDS if kind != "portrait")


def test_the_face_box_holds_the_face() -> None:
    described = next(
        picture("portrait", number) for number in range(100) if len(picture("portrait", number).faces) == 1
    )
    painted, (left, top, right, bottom) = described.paint(), described.faces[0]
    wide, tall = painted.size
    cheek = painted.getpixel((round((left * 0.75 + right * 0.25) * wide), round((top * 0.35 + bottom * 0.65) * tall)))
    wall = painted.getpixel((1, round((top + bottom) / 2 * tall)))
    assert sum(abs(a - b) for a, b in zip(cheek, wall, strict=True)) > 40


@pytest.mark.parametrize(
    ("name", "pillow_format", "mode"),
    [
        ("jpeg", "JPEG", "RGB"),
        ("progressive", "JPEG", "RGB"),
        ("grey", "JPEG", "L"),
        ("cmyk", "JPEG", "CMYK"),
        ("rotated", "JPEG", "RGB"),
        ("png", "PNG", "RGB"),
        ("palette", "PNG", "P"),
        ("png16", "PNG", "I;16"),
        ("webp", "WEBP", "RGB"),
        ("gif", "GIF", "P"),
    ],
)
def test_every_format_is_what_its_name_says(name: str, pillow_format: str, mode: str) -> None:
    with Image.open(io.BytesIO(encoded_picture(name, "flower", 8))) as image:
        image.load()
        assert (image.format, image.mode) == (pillow_format, mode)
        assert image.size == picture("flower", 8).size
        assert bool(image.info.get("progressive")) == (name == "progressive")
        assert ("transparency" in image.info) == (name == "palette")
        assert image.getexif().get(ORIENTATION) == (6 if name == "rotated" else None)


def test_every_format_is_tested() -> None:
    assert set(FORMATS) == {"jpeg", "progressive", "grey", "cmyk", "rotated", "png", "palette", "png16", "webp", "gif"}
