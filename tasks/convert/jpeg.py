"""Check that bytes are a JPEG that decodes completely."""

import io
import os
import warnings
from typing import BinaryIO, NamedTuple

from PIL import Image, ImageFile

from tasks.contracts.errors import PipelineError
from tasks.io.byte_ranges import Content, size_of

MAX_PIXELS = 178_956_970
"""Number of pixels above which Pillow rejects an image as a decompression bomb (twice its MAX_IMAGE_PIXELS)."""

MAX_UNBACKED_BYTES = 640_000_000
"""Bytes of memory that libjpeg may use for a file of any size: all coefficients of a progressive image.

An image that needs more (up to 1.4 GB at MAX_PIXELS) must have at least one bit per block, as every encoder writes;
otherwise a file of 2 kB could allocate that much.
"""
_BLOCK_PIXELS, _COEFFICIENT_BYTES = 64, 2

# libjpeg's own limit would reject valid images and make the verdict depend on the environment.
os.environ.pop("JPEGMEM", None)

# Up to MAX_PIXELS Pillow only warns, and the image is accepted.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class JpegVerdict(NamedTuple):
    """Size in pixels, None if the header cannot be read, and ``fault``, what is wrong, None for a valid image."""

    width: int | None
    height: int | None
    fault: str | None


def check_jpeg(data: Content) -> JpegVerdict:
    """Decode the whole entropy stream of ``data`` and return the size and any fault.

    The image is decoded at a reduced scale, which skips most of the inverse transform but still reads every bit; a
    test compares the verdict with that of a full decode. Raises OSError if a large image cannot be read,
    PipelineError if a library has set Pillow to accept truncated files.
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
    except Exception as error:  # an untrusted file may make the decoder raise anything
        if isinstance(error, OSError) and error.errno is not None:  # a storage error: Pillow's own errors have no errno
            raise
        return JpegVerdict(*size, f"the image does not decode: {error}")


def _as_file(data: Content) -> BinaryIO:
    return io.BytesIO(data) if isinstance(data, bytes) else io.BufferedReader(data)


def _fault(image: ImageFile.ImageFile, file_size: int) -> str | None:
    if image.format != "JPEG":  # Pillow reports a multi-picture file as MPO
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
