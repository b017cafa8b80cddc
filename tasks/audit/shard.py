"""Audit of one raw shard: both files exist, samples are complete, and their number matches the stats."""

from collections import Counter
from collections.abc import Iterator

from tasks.audit.models import AuditJob, Finding, ShardAudit, Stats
from tasks.audit.stats import contradictions, parse_stats
from tasks.contracts.errors import TransientError
from tasks.io.files import readable_text
from tasks.io.raw_tar import SAMPLE_MEMBERS, Group, TarContents

MAX_FINDINGS = 1_000
"""Maximum number of findings in a receipt: a malicious tar can cause one per member."""

_UNUSABLE_STATS = {"missing_stats", "bad_stats"}
"""Findings after which the stats cannot be compared with the tar."""

_TAR_ENDS = {
    "missing": ("no_end_of_archive", "the tar does not end with an end of archive: its writer was interrupted"),
    "trailing data": ("trailing_data", "the tar holds data after its end of archive, which no reader will see"),
}


def audit_shard(job: AuditJob) -> ShardAudit:
    """Audit a shard, write its index and its receipt, and return the audit.

    Findings do not raise an error: every shard is audited and every finding is reported. A shard with a valid
    receipt is not audited again. Raises OSError if a file cannot be read, TransientError if one changes during
    the audit.
    """
    done = job.finished()
    if done is not None:
        return done
    work = job.receipt()
    audit = _audit(job)
    receipt = job.receipt(audit)
    if not receipt.is_for(work):
        raise TransientError(f"the shard {job.shard} changed while it was audited; is its download still running?")
    receipt.write(job.receipt_path)
    return audit


def _audit(job: AuditJob) -> ShardAudit:
    contents = job.indexes().contents(job.tar) if job.tar.is_file() else None
    stats, stats_findings = _read_stats(job)
    findings = [*stats_findings, *_tar_findings(job, contents)]
    if contents and not any(finding.kind in _UNUSABLE_STATS for finding in stats_findings):
        findings += _count_findings(job, contents, stats)
    return ShardAudit(
        shard=job.shard,
        stats=stats,
        samples=sum(_is_complete(group) for group in contents.groups) if contents else 0,
        tar_bytes=job.tar.stat().st_size if contents else 0,
        findings=_limit(job.shard, findings),
    )


def _limit(shard: str, findings: list[Finding]) -> tuple[Finding, ...]:
    more = len(findings) - MAX_FINDINGS
    if more <= 0:
        return tuple(findings)
    message = f"and {more:,} more findings that are not listed"
    return (*findings[:MAX_FINDINGS], Finding(shard=shard, kind="more_findings", message=message))


def _read_stats(job: AuditJob) -> tuple[Stats, list[Finding]]:
    if not job.stats_file.is_file():
        message = f"{job.stats_file.name} is missing: the download of this shard was not completed; resume it"
        return Stats(), [Finding(shard=job.shard, kind="missing_stats", message=message)]
    stats, problems = parse_stats(job.stats_file.read_bytes())
    found = [("bad_stats", problem) for problem in problems]
    found = found or [("contradictory_stats", contradiction) for contradiction in contradictions(stats)]
    name = job.stats_file.name
    return stats, [Finding(shard=job.shard, kind=kind, message=f"{name}: {problem}") for kind, problem in found]


def _tar_findings(job: AuditJob, contents: TarContents | None) -> Iterator[Finding]:
    if contents is None:
        yield Finding(shard=job.shard, kind="missing_tar", message=f"{job.tar.name} is missing; resume the download")
        return
    for error in contents.troubles:
        what = error.member or job.tar.name
        yield Finding(
            shard=job.shard,
            kind="unreadable",
            message=f"{what} {error.message}",
            key=error.member,
            offset=error.offset,
        )
    for name in contents.other_members:
        yield Finding(shard=job.shard, kind="not_a_file", message=f"the member {name!r} is not a regular file")
    yield from _group_findings(job.shard, contents)
    if contents.end in _TAR_ENDS:
        kind, message = _TAR_ENDS[contents.end]
        yield Finding(shard=job.shard, kind=kind, message=message)


def _count_findings(job: AuditJob, contents: TarContents, stats: Stats) -> Iterator[Finding]:
    complete = sum(_is_complete(group) for group in contents.groups)
    if complete != stats.successes:
        message = f"the stats count {stats.successes} samples, but the tar holds {complete} complete samples"
        yield Finding(shard=job.shard, kind="count_mismatch", message=message)


def _group_findings(shard: str, contents: TarContents) -> Iterator[Finding]:
    seen: Counter[str] = Counter()
    for group in contents.groups:
        seen[group.key] += 1
        for kind, message in _group_problems(group, seen[group.key]):
            yield Finding(shard=shard, kind=kind, message=message, key=readable_text(group.key), offset=group.offset)


def _group_problems(group: Group, times_seen: int) -> Iterator[tuple[str, str]]:
    extensions = {member.extension for member in group.members}
    missing = [name for name in SAMPLE_MEMBERS if name not in extensions]
    unexpected = sorted(extensions - set(SAMPLE_MEMBERS))
    if times_seen > 1:
        yield "duplicate_key", "the key occurs again: its members are not contiguous, or the sample is duplicated"
    if missing:
        yield "missing_member", f"the sample lacks {', '.join(missing)}"
    if unexpected:
        yield "unexpected_member", f"the sample has unexpected members: {', '.join(map(repr, unexpected))}"


def _is_complete(group: Group) -> bool:
    return {member.extension for member in group.members} == set(SAMPLE_MEMBERS)
