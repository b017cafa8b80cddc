"""Texts of the web and numbers, as a page shows them."""

import unicodedata

_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def size_of(width: int | None, height: int | None, jpg_bytes: int | None) -> str:
    """A picture's size as people read it."""
    pixels = f"{width}×{height}" if width and height else ""
    return ", ".join(filter(None, [pixels, f"{jpg_bytes:,} bytes" if jpg_bytes is not None else ""]))


def readable(text: str, longest: int) -> str:
    """Free text from the web for a page: no control characters, no reordering marks, not longer than ``longest``."""
    start = text[: 4 * longest]
    clean = "".join(" " if c in _REORDERING or unicodedata.category(c) in {"Cc", "Cs"} else c for c in start)
    clean = " ".join(clean.split())
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def file_size(number_of_bytes: float) -> str:
    """Bytes in the decimal unit that suits them."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number_of_bytes < 1000:
            return f"{number_of_bytes:,.0f} {unit}" if unit == "bytes" else f"{number_of_bytes:,.3g} {unit}"
        number_of_bytes /= 1000
    return f"{number_of_bytes:,.3g} TB"
