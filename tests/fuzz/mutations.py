"""Mutations of a stored corpus: the input of the fuzz tests. Inputs that fail are stored in the corpus."""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from tests.fuzz.conftest import EXAMPLES

FOLDER = Path(__file__).parent / "corpus"

Check = Callable[[bytes], None]


@functools.cache
def corpus(kind: str) -> list[bytes]:
    """Return the stored files of a kind, sorted by name."""
    return [path.read_bytes() for path in sorted((FOLDER / kind).iterdir())]


@st.composite
def near(draw: st.DrawFn, kind: str, splices: tuple[bytes, ...] = (b"",)) -> bytes:
    """Draw a file of the corpus with up to six changes: bytes flipped, cut, inserted, doubled, or spliced in."""
    files = corpus(kind)
    data = bytearray(draw(st.sampled_from(files)))
    for _ in range(draw(st.integers(0, 6))):
        change = draw(st.sampled_from(["flip", "cut", "put", "double", "splice", "end"]))
        start = draw(st.integers(0, len(data)))
        length = draw(st.integers(1, 600))
        if change == "flip":
            data[start : start + 1] = bytes([draw(st.integers(0, 255))])
        elif change == "cut":
            del data[start : start + length]
        elif change == "put":
            data[start:start] = draw(st.one_of(st.binary(max_size=40), st.sampled_from(splices)))
        elif change == "double":
            data[start:start] = data[start : start + length]
        elif change == "splice":
            data[start:] = draw(st.sampled_from(files))[start:]
        else:
            del data[start:]
    return bytes(data)


def keeping(kind: str, check: Check) -> Check:
    """Wrap ``check``: a long run adds the inputs that fail to the corpus."""

    def checked(data: bytes) -> None:
        try:
            check(data)
        except Exception:
            if EXAMPLES:
                (FOLDER / kind / f"found-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
            raise

    return checked
