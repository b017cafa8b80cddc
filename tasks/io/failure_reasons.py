"""Kinds of download failures. The downloader's reasons are free text, often with the URL or byte counts in it."""

import re
from collections import Counter
from collections.abc import Mapping

from tasks.io.files import shown_text

_WRAPPED = re.compile(r"<urlopen error (.*)>", re.DOTALL)
_BRACKETED = re.compile(r"^\[[^\]]*\]\s*")
_QUOTED = re.compile(r"(?<!\w)(['\"]).*?\1(?!\w)", re.DOTALL)
_LONGEST = 60


def kind_of(reason: str) -> str:
    """Return a reason without the parts that vary by URL: ``IncompleteRead(5 bytes read)`` -> ``IncompleteRead``."""
    wrapped = _WRAPPED.fullmatch(reason.strip())
    text = shown_text(" ".join(_BRACKETED.sub("", wrapped[1] if wrapped else reason).split()))
    if text.startswith("HTTP Error "):
        return " ".join(text.split())[:_LONGEST]
    text = re.split(r"[(:]|\. ", _QUOTED.sub("", text), maxsplit=1)[0]
    text = re.sub(r"\d+", "", text)
    return " ".join(text.split())[:_LONGEST] or "(no reason given)"


def by_kind(reasons: Mapping[str, int]) -> dict[str, int]:
    """Return the counts by kind, most frequent first."""
    kinds: Counter[str] = Counter()
    for reason, count in reasons.items():
        kinds[kind_of(reason)] += count
    return dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0])))
