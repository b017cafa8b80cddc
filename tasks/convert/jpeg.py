"""Whether bytes are a JPEG that decodes to its end."""

import io
import os
import warnings
from typing import NamedTuple

from PIL import Image, ImageFile

from tasks.contracts.errors import PipelineError

MAX_PIXELS = 178_956_970
"""Pixels above which Pillow calls a picture a decompression bomb (twice its MAX_IMAGE_PIXELS)."""

# A progressive file makes libjpeg hold all coefficients of the size that it claims, which may be a GB for a file of
# 2 kB. libjpeg reads this variable whenever it opens a file, and refuses what needs more.
os.environ.setdefault("JPEGMEM", "640M")

# Below that Pillow only warns, and so the picture counts.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class JpegVerdict(NamedTuple):
    """Size in pixels where the header could be read; ``fault`` says what is wrong, None if nothing is."""

    width: int | None
    height: int | None
    fault: str | None


def check_jpeg(data: bytes) -> JpegVerdict:
    """Decode the whole entropy stream of ``data`` and say whether it is sound.

    The decode is scaled down, which skips most of the inverse transform but reads every bit: a test holds it
    to the verdict of a full decode. Raises PipelineError if some library has told Pillow to accept cut files.
    """
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise PipelineError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is on in this process, so that cut pictures would count as good; "
            "find the library that sets it"
        )
    size: tuple[int | None, int | None] = (None, None)
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
            size = image.size
            return JpegVerdict(*size, _fault(image))
    except Image.UnidentifiedImageError:
        return JpegVerdict(*size, "the image is not a JPEG")
    except Image.DecompressionBombError:
        return JpegVerdict(*size, f"the image claims more than {MAX_PIXELS} pixels")
    except Exception as error:  # a hostile file may make the decoder raise anything
        return JpegVerdict(*size, f"the image does not decode: {error}")


def _fault(image: ImageFile.ImageFile) -> str | None:
    if image.format != "JPEG":  # a multi-picture file calls itself MPO
        return f"the image is {image.format}, not JPEG"
    if image.width * image.height > MAX_PIXELS:
        return f"the image claims more than {MAX_PIXELS} pixels"
    image.draft("L", (1, 1))
    image.load()
    return None
