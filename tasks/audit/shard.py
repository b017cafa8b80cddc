"""Audit one raw shard: the completed pair, whole samples, and the number that the stats promise."""

from collections import Counter
from collections.abc import Iterator

from tasks.audit.models import AuditJob, Finding, ShardAudit, Stats
from tasks.audit.stats import parse_stats
from tasks.raw_tar import Group, TarContents

EXPECTED = ("jpg", "json", "txt")
"""The members of a raw sample."""

_TAR_ENDS = {
    "missing": ("no_end_of_archive", "the tar does not end with an end of archive: its writer was interrupted"),
    "trailing data": ("trailing_data", "the tar holds data after its end of archive, which no reader will see"),
}


def audit_shard(job: AuditJob) -> ShardAudit:
    """Audit a shard, write its index and its receipt, and return all that was found.

    A finding is not an error here: every shard is audited and every finding reported. Work that a valid
    receipt tells of is not done again. Raises OSError if a file cannot be read.
    """
    done = job.finished()
    if done is not None:
        return done
    contents = job.indexes().contents(job.tar) if job.tar.is_file() else None
    stats, stats_findings = _stats(job)
    findings = [*stats_findings, *_tar_findings(job, contents, stats)]
    audit = ShardAudit(
        shard=job.shard,
        stats=stats,
        samples=sum(_is_whole(group) for group in contents.groups) if contents else 0,
        tar_bytes=job.tar.stat().st_size if contents else 0,
        findings=tuple(findings),
    )
    job.receipt(audit).write(job.receipt_path)
    return audit


def _stats(job: AuditJob) -> tuple[Stats, list[Finding]]:
    if not job.stats_file.is_file():
        message = f"{job.stats_file.name} is missing: the download of this shard was not completed; resume it"
        return Stats(), [Finding(shard=job.shard, kind="missing_stats", message=message)]
    stats, problems = parse_stats(job.stats_file.read_bytes())
    name = job.stats_file.name
    return stats, [Finding(shard=job.shard, kind="bad_stats", message=f"{name}: {problem}") for problem in problems]


def _tar_findings(job: AuditJob, contents: TarContents | None, stats: Stats) -> Iterator[Finding]:
    if contents is None:
        yield Finding(shard=job.shard, kind="missing_tar", message=f"{job.tar.name} is missing; resume the download")
        return
    for trouble in contents.troubles:
        what = trouble.member or job.tar.name
        yield Finding(
            shard=job.shard,
            kind="unreadable",
            message=f"{what} {trouble.message}",
            key=trouble.member,
            offset=trouble.offset,
        )
    for name in contents.other_members:
        yield Finding(shard=job.shard, kind="not_a_file", message=f"the member {name!r} is not a regular file")
    yield from _group_findings(job.shard, contents)
    if contents.end in _TAR_ENDS:
        kind, message = _TAR_ENDS[contents.end]
        yield Finding(shard=job.shard, kind=kind, message=message)
    whole = sum(_is_whole(group) for group in contents.groups)
    if job.stats_file.is_file() and whole != stats.successes:
        message = f"the stats promise {stats.successes} samples, the tar holds {whole} whole ones"
        yield Finding(shard=job.shard, kind="count_mismatch", message=message)


def _group_findings(shard: str, contents: TarContents) -> Iterator[Finding]:
    seen: Counter[str] = Counter()
    for group in contents.groups:
        seen[group.key] += 1
        for kind, message in _faults(group, seen[group.key]):
            yield Finding(shard=shard, kind=kind, message=message, key=group.key, offset=group.offset)


def _faults(group: Group, times_seen: int) -> Iterator[tuple[str, str]]:
    extensions = {member.extension for member in group.members}
    missing = [name for name in EXPECTED if name not in extensions]
    unexpected = sorted(extensions - set(EXPECTED))
    if times_seen > 1:
        yield "duplicate_key", "the key was there before: its members are not contiguous, or the sample is doubled"
    if missing:
        yield "missing_member", f"the sample lacks {', '.join(missing)}"
    if unexpected:
        yield "unexpected_member", f"the sample has unexpected members: {', '.join(map(repr, unexpected))}"


def _is_whole(group: Group) -> bool:
    return {member.extension for member in group.members} == set(EXPECTED)
