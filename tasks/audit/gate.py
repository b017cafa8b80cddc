"""Totals of all shards, and the gate that they must pass."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tasks.audit.models import AuditTotals, Finding, ShardAudit
from tasks.contracts.errors import GateError, ShardError
from tasks.contracts.settings import GateSettings
from tasks.io.failure_reasons import by_kind
from tasks.io.files import shown_text

_SHARD_FILE = re.compile(r"(?P<shard>[0-9]+)(\.tar|\.parquet|_stats\.json)")
_DOWNLOADERS_OWN = "_tmp"
"""Where img2dataset keeps its work list; it stays behind when a download is killed."""
_SHOWN = 20


def shard_names(shards_dir: Path) -> tuple[list[str], list[Finding]]:
    """The names of all shards that ``shards_dir`` holds a part of, and a finding for every foreign file.

    Raises ShardError if there are none.
    """
    if not shards_dir.is_dir():
        raise ShardError(f"{shards_dir} is not a folder; name the folder that holds the raw shards")
    names, findings = set(), []
    for path in sorted(shards_dir.iterdir()):
        match = _SHARD_FILE.fullmatch(path.name)
        if match and path.is_file():
            names.add(match["shard"])
        elif path.name != _DOWNLOADERS_OWN:
            findings.append(
                Finding(
                    shard="-",
                    kind="foreign_file",
                    message=f"{shown_text(path.name)} does not belong among the shards; move it elsewhere",
                )
            )
    if not names:
        raise ShardError(f"{shards_dir} holds no shards (NNNNNNNN.tar with NNNNNNNN_stats.json)")
    return sorted(names), findings


class Tally:
    """Adds audits up as they come, in any order; keeps their counts and findings, not the audits."""

    def __init__(self, foreign: Sequence[Finding] = ()) -> None:
        self.foreign = foreign
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self._findings: list[Finding] = []

    def add(self, audit: ShardAudit) -> None:
        """Add a shard."""
        stats = audit.stats.model_dump(include={"successes", "failed_to_download", "failed_to_resize"})
        self.counts.update(stats, shards=not _incomplete(audit), attempts=audit.stats.count)
        self.counts.update(samples=audit.samples, tar_bytes=audit.tar_bytes)
        self.reasons.update({reason: n for reason, n in audit.stats.reasons.items() if reason != "success"})
        self._findings += audit.findings

    def findings(self) -> list[Finding]:
        """All findings, those about foreign files first, then in the shards' order."""
        return [*self.foreign, *sorted(self._findings, key=lambda finding: finding.shard)]

    def totals(self) -> AuditTotals:
        """The totals of what was added."""
        names = set(AuditTotals.model_fields) - {"failure_reasons", "findings", "gate_given"}
        return AuditTotals(
            **{name: self.counts[name] for name in names},
            failure_reasons=by_kind(self.reasons),
            findings=len(self.foreign) + len(self._findings),
        )


def add_up(audits: Iterable[ShardAudit], foreign: Sequence[Finding] = ()) -> AuditTotals:
    """The totals of all shards, whatever order they come in."""
    tally = Tally(foreign)
    for audit in audits:
        tally.add(audit)
    return tally.totals()


def check_gate(totals: AuditTotals, gate: GateSettings, findings: Sequence[Finding]) -> None:
    """Hold the totals to the gate. Raises GateError with every finding (the first 20 in full) and every miss."""
    problems = [str(finding) for finding in findings[:_SHOWN]]
    if len(findings) > _SHOWN:
        problems.append(f"and {len(findings) - _SHOWN} more findings (all are in the audit receipts)")
    if gate.expected_shards is not None and totals.shards != gate.expected_shards:
        problems.append(f"expected_shards is {gate.expected_shards}, but {totals.shards} shards are complete")
    if gate.expected_attempts is not None and totals.attempts != gate.expected_attempts:
        problems.append(f"expected_attempts is {gate.expected_attempts}, but the stats add up to {totals.attempts}")
    if gate.minimum_successes is not None and totals.successes < gate.minimum_successes:
        problems.append(f"minimum_successes is {gate.minimum_successes}, but there are {totals.successes}")
    if problems:
        raise GateError("the raw shards do not pass the audit:\n- " + "\n- ".join(problems))


def _incomplete(audit: ShardAudit) -> bool:
    return any(finding.kind in {"missing_tar", "missing_stats"} for finding in audit.findings)
