"""The file formats in which the demo's web serves its pictures."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from PIL import Image

from demo.drawing import scaled
from demo.pictures import picture

ORIENTATION = 0x0112
"""EXIF tag of a picture's orientation; 6 asks the viewer to turn it by 90 degrees."""


@dataclass(frozen=True)
class Format:
    """An encoding of pictures: its file extension, content type and encoder."""

    extension: str
    content_type: str
    encode: Callable[[Image.Image], bytes]


def _encode(image: Image.Image, pillow_format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, pillow_format, **options)
    return buffer.getvalue()


def _jpeg(image: Image.Image) -> bytes:
    return _encode(image, "JPEG", quality=88)


def _rotated(image: Image.Image) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    return _encode(image, "JPEG", quality=88, exif=exif)


def _palette(image: Image.Image) -> bytes:
    """Encode a PNG with 64 colours, one of which is transparent."""
    return _encode(image.quantize(64, Image.Quantize.FASTOCTREE), "PNG", transparency=0)


def _png16(image: Image.Image) -> bytes:
    """Encode a grey PNG with 16 bits per pixel."""
    return _encode(image.convert("L").convert("I").point(lambda level: level * 257).convert("I;16"), "PNG")


def _gif(image: Image.Image) -> bytes:
    return _encode(image.quantize(128, Image.Quantize.FASTOCTREE), "GIF")


FORMATS: dict[str, Format] = {
    "jpeg": Format("jpg", "image/jpeg", _jpeg),
    "progressive": Format("jpg", "image/jpeg", lambda image: _encode(image, "JPEG", progressive=True)),
    "grey": Format("jpg", "image/jpeg", lambda image: _jpeg(image.convert("L"))),
    "cmyk": Format("jpg", "image/jpeg", lambda image: _jpeg(image.convert("CMYK"))),
    "rotated": Format("jpg", "image/jpeg", _rotated),
    "png": Format("png", "image/png", lambda image: _encode(image, "PNG", compress_level=1)),
    "palette": Format("png", "image/png", _palette),
    "png16": Format("png", "image/png", _png16),
    "webp": Format("webp", "image/webp", lambda image: _encode(image, "WEBP", quality=80, method=0)),
    "gif": Format("gif", "image/gif", _gif),
}


@lru_cache(maxsize=32)
def encoded_picture(format_name: str, kind: str, number: int) -> bytes:
    """Return the bytes of a picture; cache the latest for retries. Raises KeyError for an unknown format or kind."""
    return FORMATS[format_name].encode(picture(kind, number).paint())


@lru_cache(maxsize=32)
def encoded_shape(width: int, height: int, kind: str, number: int) -> bytes:
    """Return a picture squeezed to an odd shape (pixels), as JPEG. Raises KeyError for an unknown kind."""
    return _jpeg(picture(kind, number).paint().resize(scaled((width, height), 1)))
