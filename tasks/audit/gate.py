"""Totals over all raw shards, and the gate that they must pass."""

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
_DOWNLOADER_FOLDER = "_tmp"
"""Folder of img2dataset's work list; it remains after a killed download."""
_MAX_LISTED = 20


def shard_names(shards_dir: Path) -> tuple[list[str], list[Finding]]:
    """Return the names of all shards with a file in ``shards_dir``, and a finding for every unexpected file.

    Raises ShardError if there are no shards.
    """
    if not shards_dir.is_dir():
        raise ShardError(f"{shards_dir} is not a folder; name the folder that holds the raw shards")
    names, findings = set(), []
    for path in sorted(shards_dir.iterdir()):
        match = _SHARD_FILE.fullmatch(path.name)
        if match and path.is_file():
            names.add(match["shard"])
        elif path.name != _DOWNLOADER_FOLDER:
            findings.append(
                Finding(
                    shard="-",
                    kind="foreign_file",
                    message=f"{shown_text(path.name)} does not belong to a shard; move it to another folder",
                )
            )
    if not names:
        raise ShardError(f"{shards_dir} holds no shards (NNNNNNNN.tar with NNNNNNNN_stats.json)")
    return sorted(names), findings


class Tally:
    """A running sum of audits, added in any order; keeps counts and findings, but not the audits."""

    def __init__(self, unexpected: Sequence[Finding] = ()) -> None:
        self.unexpected = unexpected
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self._findings: list[Finding] = []

    def add(self, audit: ShardAudit) -> None:
        """Add a shard's audit."""
        stats = audit.stats.model_dump(include={"successes", "failed_to_download", "failed_to_resize"})
        self.counts.update(stats, shards=not _is_incomplete(audit), attempts=audit.stats.count)
        self.counts.update(samples=audit.samples, tar_bytes=audit.tar_bytes)
        self.reasons.update({reason: n for reason, n in audit.stats.reasons.items() if reason != "success"})
        self._findings += audit.findings

    def findings(self) -> list[Finding]:
        """Return all findings: first those about unexpected files, then the others in shard order."""
        return [*self.unexpected, *sorted(self._findings, key=lambda finding: finding.shard)]

    def totals(self) -> AuditTotals:
        """Return the totals of the added audits."""
        names = set(AuditTotals.model_fields) - {"failure_reasons", "findings", "gate_given"}
        return AuditTotals(
            **{name: self.counts[name] for name in names},
            failure_reasons=by_kind(self.reasons),
            findings=len(self.unexpected) + len(self._findings),
        )


def add_up(audits: Iterable[ShardAudit], unexpected: Sequence[Finding] = ()) -> AuditTotals:
    """Return the totals of all audits, which may come in any order."""
    tally = Tally(unexpected)
    for audit in audits:
        tally.add(audit)
    return tally.totals()


def check_gate(totals: AuditTotals, gate: GateSettings, findings: Sequence[Finding]) -> None:
    """Check the totals against the gate. Raises GateError with the first 20 findings and every missed limit."""
    problems = [str(finding) for finding in findings[:_MAX_LISTED]]
    if len(findings) > _MAX_LISTED:
        problems.append(f"and {len(findings) - _MAX_LISTED} more findings (all are in the audit receipts)")
    if gate.expected_shards is not None and totals.shards != gate.expected_shards:
        problems.append(f"expected_shards is {gate.expected_shards}, but {totals.shards} shards are complete")
    if gate.expected_attempts is not None and totals.attempts != gate.expected_attempts:
        problems.append(f"expected_attempts is {gate.expected_attempts}, but the stats add up to {totals.attempts}")
    if gate.minimum_successes is not None and totals.successes < gate.minimum_successes:
        problems.append(f"minimum_successes is {gate.minimum_successes}, but there are {totals.successes}")
    if problems:
        raise GateError("the raw shards do not pass the audit:\n- " + "\n- ".join(problems))


def _is_incomplete(audit: ShardAudit) -> bool:
    return any(finding.kind in {"missing_tar", "missing_stats"} for finding in audit.findings)
