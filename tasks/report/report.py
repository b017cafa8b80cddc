"""The report of a dataset: one page that opens from disk, made from tables, receipts and a few byte ranges."""

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict

from tasks.contracts.settings import ReportSettings
from tasks.io.files import write_bytes
from tasks.report.cards import Card, Looks, Watch, cards, choose, choose_by_split, choose_rejects, look_at
from tasks.report.catalogue import Catalogue, read_catalogue
from tasks.report.facts import Facts, gather_facts, median, share
from tasks.report.funnel import funnel, shard_stats
from tasks.report.page import self_contained
from tasks.report.places import Places, read_json
from tasks.report.plots import ShardStats, failures_over_shards, histogram, image_sizes, success_over_shards
from tasks.report.provenance import output_tars, provenance, timings
from tasks.report.text import file_size

_EXAMPLES = 6
_KINDS_PLOTTED = 7
_ODD = {
    "grey": "grey (no colour)",
    "uniform": "near-uniform (hardly any detail)",
    "banded": "flat grey band at the bottom (a cut file that a decoder filled)",
    "undecodable": "cannot be decoded any more",
}
_ODDITIES = {
    "extreme_aspect_ratio": "one side more than 200 times the other (Qwen's processors refuse it)",
    "chat_marker": "caption with a chat marker, such as <|im_end|> or <image>",
    "not_finite": "a source value of NaN or Infinity, null in the dataset",
}
_SECTIONS = {
    "funnel": "From URLs to samples",
    "shards": "Shards",
    "shapes": "Pictures and captions",
    "sources": "Sources",
    "looks": "Odd pictures",
    "samples": "Contact sheet",
    "rejects": "Rejects",
    "timings": "Timings",
    "provenance": "Provenance",
}


class ReportSummary(BaseModel):
    """A written report. ``odd_pictures``: what was found among the ``pictures_looked_at``."""

    model_config = ConfigDict(frozen=True)

    path: Path
    samples: int
    pictures_looked_at: int
    odd_pictures: dict[str, int]
    samples_with_repeated_source: int

    def in_words(self) -> str:
        """What was looked at, in a line."""
        odd = ", ".join(f"{count:,} {kind}" for kind, count in self.odd_pictures.items()) or "none"
        return f"{self.samples:,} samples, {self.pictures_looked_at:,} pictures looked at; odd ones: {odd}"


def write_report(
    places: Places, target: Path, settings: ReportSettings, watch: Watch = lambda samples, _: samples
) -> ReportSummary:
    """Write the report of a dataset to ``target``; ``watch`` sees the pictures pass that are looked at.

    Raises DatasetError if its tables are missing or disagree.
    """
    catalogue = read_catalogue(places)
    facts = gather_facts(catalogue)
    sample = choose(facts.rows, settings.pictures_looked_at, settings.seed)
    looks = look_at(catalogue, sample, _EXAMPLES, watch)
    write_bytes(
        target,
        self_contained(
            "report.html",
            ("common.css", "report.css"),
            "report.js",
            **_about(places, catalogue, facts),
            **_plots(places, facts),
            **_pictures(places, catalogue, facts, looks, settings),
        ),
    )
    return ReportSummary(
        path=target,
        samples=len(facts.rows),
        pictures_looked_at=looks.looked_at,
        odd_pictures=looks.counts,
        samples_with_repeated_source=facts.samples_with_repeated_source,
    )


def _about(places: Places, catalogue: Catalogue, facts: Facts) -> dict[str, Any]:
    manifest, plan = read_json(places.manifest), read_json(places.plan)
    totals = read_json(places.audit_dir / "totals.json") if places.audit_dir else {}
    counts = plan["counts"]
    return {
        "name": places.dataset_dir.name,
        "lead": f"Prompt “{plan['settings']['prompt']}”, from {len(plan['opened']):,} raw shards. "
        f"Plan {plan['identity'][:12]}.",
        "tiles": _tiles(totals, counts, facts, manifest),
        "accepted": manifest.get("accepted", True),
        "audited": bool(totals),
        "findings": totals.get("findings", 0),
        "funnel": funnel(totals, counts, plan["all_opened"]),
        "facts": facts,
        "rejected": counts["skipped"],
        "blurred": _blurred(places),
        "timings": timings(places),
        "provenance": provenance(places, manifest),
        "output_tars": output_tars(manifest),
    }


def _tiles(totals: dict[str, Any], counts: dict[str, Any], facts: Facts, manifest: dict[str, Any]) -> list[Any]:
    output_bytes = sum(tar["size_bytes"] for tar in manifest.get("output_shards", []))
    tiles = [(f"{counts['train']:,}", "train samples"), (f"{counts['val']:,}", "val samples")]
    if totals:
        tiles.append((share(totals["successes"], totals["attempts"]), "of the URLs gave a picture"))
    return [
        *tiles,
        (share(counts["skipped"], counts["input_samples"]), "of the samples read were rejected"),
        (median(facts.caption_characters), "characters in the median caption"),
        (file_size(output_bytes), "in output tars"),
    ]


def _blurred(places: Places) -> str:
    settings = read_json(places.data.download / "receipt.json").get("settings", {}) if places.data else {}
    if "blur_faces" not in settings:
        return "Whether they were blurred is not known."
    return "The downloader blurred them." if settings["blur_faces"] else "The downloader did not blur them."


def _plots(places: Places, facts: Facts) -> dict[str, Any]:
    shards = shard_stats(places)
    aspect = facts.width / np.maximum(facts.height, 1)
    shapes = [
        ("Width and height of stored pictures", image_sizes(facts.width, facts.height)),
        ("Aspect ratio", histogram("aspect", "Aspect ratios", aspect, "width / height")),
        ("File size", histogram("bytes", "Sizes of the JPEGs", facts.jpg_bytes / 1000, "kB")),
        (
            "Caption length",
            histogram("captions", "Caption lengths", facts.caption_characters, "characters"),
        ),
    ]
    return {
        "shard_plots": _markup(_shard_plots(shards)),
        "shape_plots": _markup(shapes),
        "sections": [(id_, title) for id_, title in _SECTIONS.items() if id_ != "shards" or shards],
    }


def _shard_plots(shards: list[ShardStats]) -> list[tuple[str, str]]:
    if not shards:
        return []
    totals: dict[str, int] = {}
    for shard in shards:
        for kind, count in shard.failures.items():
            totals[kind] = totals.get(kind, 0) + count
    kinds = sorted(totals, key=lambda kind: (-totals[kind], kind))[:_KINDS_PLOTTED]
    return [
        ("Successful URLs", success_over_shards(shards)),
        ("Lost URLs, by reason", failures_over_shards(shards, kinds)),
    ]


def _markup(plots: list[tuple[str, str]]) -> list[tuple[str, Markup]]:
    return [(title, Markup(plot)) for title, plot in plots]  # SVG of our own making, escaped by its writer


def _pictures(
    places: Places, catalogue: Catalogue, facts: Facts, looks: Looks, settings: ReportSettings
) -> dict[str, Any]:
    rejects = cards(catalogue, choose_rejects(catalogue, settings.reject_sheet, settings.seed))
    notes = {one.row: f"{one.samples:,} times" for one in facts.repeated[:_EXAMPLES]}
    odd_notes = {row: f"stored unturned; its file said: {kind}" for row, kind in facts.rotated_rows[:_EXAMPLES]}
    odd_notes |= {row: kind for kind, rows in looks.rows.items() for row in rows}
    return {
        "settings": settings,
        "repeated": cards(catalogue, notes, notes),
        "odd": _by_note(cards(catalogue, sorted(odd_notes), odd_notes)),
        "looks": [*_looks(facts, looks), *_oddities(places, facts)],
        "looks_scope": f"{looks.looked_at:,} of {len(facts.rows):,} pictures of the dataset, chosen by chance, "
        "were decoded and looked at; examples are shown below.",
        "samples": cards(catalogue, choose_by_split(catalogue, settings.contact_sheet, settings.seed)),
        "rejects": rejects,
        "reject_reasons": sorted({card.reason for card in rejects}),
    }


def _oddities(places: Places, facts: Facts) -> list[tuple[str, int, str, str]]:
    """What the plan counted among the samples that it emitted."""
    counts, every = read_json(places.plan).get("oddities", {}), len(facts.rows)
    return [
        (words, counts[kind], share(counts[kind], every), f"of all {every:,}")
        for kind, words in _ODDITIES.items()
        if kind in counts
    ]


def _by_note(odd: list[Card]) -> list[Card]:
    return sorted(odd, key=lambda card: card.note)


def _looks(facts: Facts, looks: Looks) -> list[tuple[str, int, str, str]]:
    scope = f"of {looks.looked_at:,} looked at"
    counts = {words: looks.counts.get(kind, 0) for kind, words in _ODD.items()}
    lines = [(words, count, share(count, looks.looked_at), scope) for words, count in counts.items()]
    if facts.sources_known:
        turned, every = len(facts.rotated_rows), len(facts.rows)
        lines.append(("stored unturned, against the file's EXIF", turned, share(turned, every), f"of all {every:,}"))
    return lines
