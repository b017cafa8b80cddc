"""Totals of all shards, and the gate that they must pass."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tasks.audit.models import AuditTotals, Finding, ShardAudit
from tasks.errors import GateError, ShardError
from tasks.failure_reasons import by_kind
from tasks.files import readable_text
from tasks.settings import GateSettings

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
                    message=f"{readable_text(path.name)} does not belong among the shards; move it elsewhere",
                )
            )
    if not names:
        raise ShardError(f"{shards_dir} holds no shards (NNNNNNNN.tar with NNNNNNNN_stats.json)")
    return sorted(names), findings


def add_up(audits: Iterable[ShardAudit], foreign: Sequence[Finding] = ()) -> AuditTotals:
    """The totals of all shards, whatever order they come in."""
    audits = list(audits)
    reasons: Counter[str] = Counter()
    for audit in audits:
        reasons.update({reason: n for reason, n in audit.stats.reasons.items() if reason != "success"})
    return AuditTotals(
        shards=sum(1 for audit in audits if not _incomplete(audit)),
        attempts=sum(audit.stats.count for audit in audits),
        successes=sum(audit.stats.successes for audit in audits),
        failed_to_download=sum(audit.stats.failed_to_download for audit in audits),
        failed_to_resize=sum(audit.stats.failed_to_resize for audit in audits),
        samples=sum(audit.samples for audit in audits),
        tar_bytes=sum(audit.tar_bytes for audit in audits),
        failure_reasons=by_kind(reasons),
        findings=len(foreign) + sum(len(audit.findings) for audit in audits),
    )


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
