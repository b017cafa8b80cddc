"""Dataset report: one page that opens from disk, built from tables, receipts and a few byte ranges."""

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict

from tasks.contracts.settings import ReportSettings
from tasks.io.files import write_bytes
from tasks.report.cards import (
    Card,
    PictureCheck,
    Watch,
    build_cards,
    check_pictures,
    choose,
    choose_by_split,
    choose_rejects,
)
from tasks.report.catalogue import Catalogue, read_catalogue
from tasks.report.facts import Facts, gather_facts, median, share
from tasks.report.funnel import funnel, read_shard_stats
from tasks.report.page import render_page
from tasks.report.places import Places, read_json
from tasks.report.plots import ShardStats, failures_over_shards, histogram, image_sizes, success_over_shards
from tasks.report.provenance import output_tars, provenance, timings
from tasks.report.text import format_bytes

_EXAMPLES = 6
_KINDS_PLOTTED = 7
_PICTURE_ODDITIES = {
    "grey": "grey (no colour)",
    "uniform": "near-uniform (hardly any detail)",
    "banded": "flat grey band at the bottom (a truncated file that a decoder filled)",
    "undecodable": "cannot be decoded any more",
}
_PLAN_ODDITIES = {
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
    """A written report. ``odd_pictures``: counts by kind of oddity among the ``pictures_looked_at`` pictures."""

    model_config = ConfigDict(frozen=True)

    path: Path
    samples: int
    pictures_looked_at: int
    odd_pictures: dict[str, int]
    samples_with_repeated_source: int

    def in_words(self) -> str:
        """Return a one-line summary."""
        odd = ", ".join(f"{count:,} {kind}" for kind, count in self.odd_pictures.items()) or "none"
        return f"{self.samples:,} samples, {self.pictures_looked_at:,} pictures checked; odd ones: {odd}"


def write_report(
    places: Places, target: Path, settings: ReportSettings, watch: Watch = lambda samples, _: samples
) -> ReportSummary:
    """Write the report of a dataset to ``target``; ``watch`` wraps the pictures that are checked, to report progress.

    Raises DatasetError if its tables are missing or inconsistent.
    """
    catalogue = read_catalogue(places)
    facts = gather_facts(catalogue)
    sample = choose(facts.rows, settings.pictures_looked_at, settings.seed)
    check = check_pictures(catalogue, sample, _EXAMPLES, watch)
    write_bytes(
        target,
        render_page(
            "report.html",
            ("common.css", "report.css"),
            "report.js",
            **_describe_dataset(places, catalogue, facts),
            **_plots(places, facts),
            **_pictures(places, catalogue, facts, check, settings),
        ),
    )
    return ReportSummary(
        path=target,
        samples=len(facts.rows),
        pictures_looked_at=check.looked_at,
        odd_pictures=check.counts,
        samples_with_repeated_source=facts.samples_with_repeated_source,
    )


def _describe_dataset(places: Places, catalogue: Catalogue, facts: Facts) -> dict[str, Any]:
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
        "blurred": _describe_blurring(places),
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
        (format_bytes(output_bytes), "in output tars"),
    ]


def _describe_blurring(places: Places) -> str:
    settings = read_json(places.data.download / "receipt.json").get("settings", {}) if places.data else {}
    if "blur_faces" not in settings:
        return "Whether they were blurred is not known."
    return "The downloader blurred them." if settings["blur_faces"] else "The downloader did not blur them."


def _plots(places: Places, facts: Facts) -> dict[str, Any]:
    shards = read_shard_stats(places)
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
        "shard_plots": _mark_safe(_shard_plots(shards)),
        "shape_plots": _mark_safe(shapes),
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


def _mark_safe(plots: list[tuple[str, str]]) -> list[tuple[str, Markup]]:
    return [(title, Markup(plot)) for title, plot in plots]  # safe: our own SVG, escaped when it was written


def _pictures(
    places: Places, catalogue: Catalogue, facts: Facts, check: PictureCheck, settings: ReportSettings
) -> dict[str, Any]:
    rejects = build_cards(catalogue, choose_rejects(catalogue, settings.reject_sheet, settings.seed))
    notes = {one.row: f"{one.samples:,} times" for one in facts.repeated[:_EXAMPLES]}
    odd_notes = {row: f"stored without its EXIF rotation: {kind}" for row, kind in facts.rotated_rows[:_EXAMPLES]}
    odd_notes |= {row: kind for kind, rows in check.rows.items() for row in rows}
    return {
        "settings": settings,
        "repeated": build_cards(catalogue, notes, notes),
        "odd": _sort_by_note(build_cards(catalogue, sorted(odd_notes), odd_notes)),
        "looks": [*_picture_oddities(facts, check), *_plan_oddities(places, facts)],
        "looks_scope": f"{check.looked_at:,} of {len(facts.rows):,} pictures of the dataset, chosen at random, "
        "were decoded and checked; examples are shown below.",
        "samples": build_cards(catalogue, choose_by_split(catalogue, settings.contact_sheet, settings.seed)),
        "rejects": rejects,
        "reject_reasons": sorted({card.reason for card in rejects}),
    }


def _plan_oddities(places: Places, facts: Facts) -> list[tuple[str, int, str, str]]:
    """Return table rows of the oddities that the plan counted among the emitted samples."""
    counts, total = read_json(places.plan).get("oddities", {}), len(facts.rows)
    return [
        (words, counts[kind], share(counts[kind], total), f"of all {total:,}")
        for kind, words in _PLAN_ODDITIES.items()
        if kind in counts
    ]


def _sort_by_note(odd: list[Card]) -> list[Card]:
    return sorted(odd, key=lambda card: card.note)


def _picture_oddities(facts: Facts, check: PictureCheck) -> list[tuple[str, int, str, str]]:
    scope = f"of {check.looked_at:,} checked"
    counts = {words: check.counts.get(kind, 0) for kind, words in _PICTURE_ODDITIES.items()}
    lines = [(words, count, share(count, check.looked_at), scope) for words, count in counts.items()]
    if facts.sources_known:
        rotated, total = len(facts.rotated_rows), len(facts.rows)
        lines.append(("stored without their EXIF rotation", rotated, share(rotated, total), f"of all {total:,}"))
    return lines
