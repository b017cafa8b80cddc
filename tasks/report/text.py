"""Formatting of numbers and of text from the web for a page."""

import unicodedata

_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def format_picture_size(width: int | None, height: int | None, jpg_bytes: int | None) -> str:
    """Format a picture's dimensions and file size."""
    pixels = f"{width}×{height}" if width and height else ""
    return ", ".join(filter(None, [pixels, f"{jpg_bytes:,} bytes" if jpg_bytes is not None else ""]))


def clean_text(text: str, longest: int) -> str:
    """Clean free text from the web: drop control characters and reordering marks, cut at ``longest`` characters."""
    start = text[: 4 * longest]
    clean = "".join(" " if c in _REORDERING or unicodedata.category(c) in {"Cc", "Cs"} else c for c in start)
    clean = " ".join(clean.split())
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def format_bytes(number_of_bytes: float) -> str:
    """Format a number of bytes in a suitable decimal unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number_of_bytes < 1000:
            return f"{number_of_bytes:,.0f} {unit}" if unit == "bytes" else f"{number_of_bytes:,.3g} {unit}"
        number_of_bytes /= 1000
    return f"{number_of_bytes:,.3g} TB"
