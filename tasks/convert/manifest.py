"""manifest.json: the dataset's contents, its source, and whether it has enough samples."""

from typing import Any

from PIL import features

from tasks.contracts.errors import PlanError
from tasks.contracts.settings import ConvertSettings
from tasks.convert.models import Plan, WrittenTar

SCHEMA_VERSION = 1

_TUTORIAL_FIELDS = {
    "objective": "causal image-conditioned caption generation",
    "assistant_target": "original DataComp caption",
    "loss_mask": "assistant tokens only; applied by the selected ChatML VLM collator",
    "split_identity": "DataComp uid",
    "split_hash": "first 64 bits of SHA-256, big endian",
    "selection_order": "lexically sorted raw tar filename, then tar member order",
}
"""Names and values from Megatron-Bridge's tutorial, for readers that expect its manifest."""


def build_manifest(
    plan: Plan, written: dict[str, WrittenTar], settings: ConvertSettings, available: int
) -> dict[str, Any]:
    """Return the manifest as a JSON value, without time, host, path or number of workers.

    ``written``: finished tars by file name; ``available``: number of raw tars in the source folder. Raises
    PlanError if the tars differ from the plan or the counts do not add up.
    """
    check_counts(plan, written)
    return {
        "schema_version": SCHEMA_VERSION,
        "contract_version": plan.contract_version,
        "plan": plan.identity,
        "source": {
            "repo_id": settings.source_dataset,
            "revision": settings.source_revision,
            "raw_shard_count_available": available,
            "raw_shard_count_opened": len(plan.opened),
            "raw_shards_opened": [fingerprint.name for fingerprint in plan.opened],
            "raw_shards": [fingerprint.model_dump() for fingerprint in plan.opened],
            **({"accepted_cut_tars": plan.accepted_gaps} if plan.accepted_gaps else {}),
        },
        "adaptation": _adaptation(settings),
        "counts": plan.counts.model_dump(),
        "oddities": plan.oddities,
        "shard_counts": [counts.model_dump() for counts in plan.shards],
        "minimum_train_samples": settings.minimum_train_samples,
        "maximum_samples": settings.maximum_samples,
        "accepted": plan.counts.train >= settings.minimum_train_samples,
        "output_shards": [
            {
                "filename": tar.filename,
                "split": tar.split,
                "samples": tar.samples,
                "size_bytes": written[tar.filename].output.size,
                "sha256": written[tar.filename].output.sha256,
            }
            for tar in plan.tars
        ],
        "settings": plan.settings,
        "decoders": {
            "pillow": features.version("pil"),
            "libjpeg": features.version("libjpeg_turbo") or features.version("jpg"),
        },
    }


def check_counts(plan: Plan, written: dict[str, WrittenTar]) -> None:
    """Check that the counts agree: per shard, in total, and between plan and tars. Raises PlanError."""
    faults = [
        f"{c.shard}: {c.inputs} inputs, but {c.outputs} outputs and {c.rejects} rejects"
        for c in plan.shards
        if c.inputs != c.outputs + c.rejects
    ]
    faults += [
        f"{tar.filename}: planned {tar.samples} samples, written {written[tar.filename].samples}"
        for tar in plan.tars
        if written[tar.filename].samples != tar.samples
    ]
    counts = plan.counts
    emitted = sum(tar.samples for tar in plan.tars)
    if not counts.input_samples - counts.skipped == counts.train + counts.val == emitted:
        faults.append(f"in total {counts.input_samples} inputs, {counts.skipped} rejects, {emitted} outputs")
    if faults:
        raise PlanError("the conversion's counts do not add up: " + "; ".join(faults))


def _adaptation(settings: ConvertSettings) -> dict[str, Any]:
    return {
        **_TUTORIAL_FIELDS,
        "format": "ChatML conversation and JPEG, one Energon sample each",
        "prompt": settings.prompt,
        "caption": "the TXT member, unchanged, as the assistant's turn",
        "image": "the JPG member's bytes, unchanged",
        "split_rule": "val if the first 8 bytes of SHA-256(uid), big endian, over 2**64 are below validation_fraction",
        "validation_fraction": settings.validation_fraction,
        "max_samples_per_tar": settings.max_samples_per_tar,
        "deduplication": "the first usable sample of a uid, in order of shards and members",
    }
