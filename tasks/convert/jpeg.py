"""Whether bytes are a JPEG that decodes to its end."""

import io
import os
import warnings
from typing import BinaryIO, NamedTuple

from PIL import Image, ImageFile

from tasks.contracts.errors import PipelineError
from tasks.io.byte_ranges import Content, size_of

MAX_PIXELS = 178_956_970
"""Pixels above which Pillow calls a picture a decompression bomb (twice its MAX_IMAGE_PIXELS)."""

MAX_UNBACKED_BYTES = 640_000_000
"""Memory that libjpeg may take for a file of any size: all coefficients of a progressive picture.

A picture that needs more (up to 1.4 GB at MAX_PIXELS) must have a bit a block, as every encoder writes; without that a
file of 2 kB could claim it.
"""
_BLOCK_PIXELS, _COEFFICIENT_BYTES = 64, 2

# libjpeg's own limit would reject sound pictures, and let the verdict depend on the environment.
os.environ.pop("JPEGMEM", None)

# Below that Pillow only warns, and so the picture counts.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class JpegVerdict(NamedTuple):
    """Size in pixels where the header could be read; ``fault`` says what is wrong, None if nothing is."""

    width: int | None
    height: int | None
    fault: str | None


def check_jpeg(data: Content) -> JpegVerdict:
    """Decode the whole entropy stream of ``data`` and say whether it is sound.

    The decode is scaled down, which skips most of the inverse transform but reads every bit: a test holds it
    to the verdict of a full decode. Raises OSError if a large picture cannot be read, PipelineError if some library
    has told Pillow to accept cut files.
    """
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise PipelineError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is on in this process, so that cut pictures would count as good; "
            "find the library that sets it"
        )
    size: tuple[int | None, int | None] = (None, None)
    try:
        with Image.open(_as_file(data), formats=("JPEG",)) as image:
            size = image.size
            return JpegVerdict(*size, _fault(image, size_of(data)))
    except Image.UnidentifiedImageError:
        return JpegVerdict(*size, "the image is not a JPEG")
    except Image.DecompressionBombError:
        return JpegVerdict(*size, f"the image claims more than {MAX_PIXELS} pixels")
    except Exception as error:  # a hostile file may make the decoder raise anything
        if isinstance(error, OSError) and error.errno is not None:  # of the storage: Pillow's own have no number
            raise
        return JpegVerdict(*size, f"the image does not decode: {error}")


def _as_file(data: Content) -> BinaryIO:
    return io.BytesIO(data) if isinstance(data, bytes) else io.BufferedReader(data)


def _fault(image: ImageFile.ImageFile, file_size: int) -> str | None:
    if image.format != "JPEG":  # a multi-picture file calls itself MPO
        return f"the image is {image.format}, not JPEG"
    if image.width * image.height > MAX_PIXELS:
        return f"the image claims more than {MAX_PIXELS} pixels"
    pixels = image.width * image.height
    memory = pixels * len(image.getbands()) * _COEFFICIENT_BYTES
    if memory > MAX_UNBACKED_BYTES and file_size * 8 * _BLOCK_PIXELS < pixels:
        claim = f"{image.width} x {image.height} pixels in {file_size} bytes"
        return f"the image does not decode: {claim} are less than a bit for each block"
    image.draft("L", (1, 1))
    image.load()
    return None
