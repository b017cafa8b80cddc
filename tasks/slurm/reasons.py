"""Explanations of why a job is pending, and what to do about it.

The reasons have Slurm's names (``JOB REASON CODES`` in squeue's manual; job_reason_codes.html of its documentation).
"""

import re

_WORDS = {
    "Resources": "it waits for nodes or memory to become free; it is next in line",
    "Priority": "jobs of higher priority wait before it; it starts when they have",
    "None": "Slurm has not looked at it yet",
    "BeginTime": "its start time has not come yet; a requeued job waits about two minutes",
    "Dependency": "it waits for the jobs that its dependency names",
    "DependencyNeverSatisfied": "will never start: a job it depends on failed; cancel it and remove the dependency",
    "JobHeldUser": "it is held; release it with: scontrol release {job}",
    "JobHeldAdmin": "an administrator holds it; ask the site",
    "job_requeued_in_held_state": "it was requeued and is held; release it with: scontrol release {job}",
    "launch_failed_requeued_held": "its launch failed and it is held; look at the node, then: scontrol release {job}",
    "PartitionTimeLimit": "will never start: its time limit is above the partition's; ask for less time",
    "PartitionNodeLimit": "will never start: it asks for more nodes than the partition allows; ask for fewer nodes",
    "PartitionDown": "its partition is down; wait, or choose another partition",
    "PartitionInactive": "its partition is inactive; wait, or choose another partition",
    "PartitionConfig": "will never start: what it asks for is outside the partition's limits; ask for less",
    "NodeDown": "a node that it needs is down; leave out nodelist, or wait for the node",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved; leave out nodelist, or wait for them",
    "BadConstraints": "will never start: no node has all the features in its constraint; change the constraint",
    "Licenses": "it waits for a licence",
    "Reservation": "it waits for its reservation to begin",
    "ReservationDeleted": "will never start: its reservation was deleted; change reservation",
    "InvalidAccount": "will never start: its account is not valid; change account",
    "InvalidQOS": "will never start: its QOS is not valid; change qos",
    "AccountNotAllowed": "will never start: its account may not use the partition; change account or partition",
    "QOSNotAllowed": "will never start: its QOS may not be used here; change qos or partition",
    "Cleaning": "an earlier attempt is still being cleaned up",
    "NodeBoot": "its nodes are booting",
    "JobArrayTaskLimit": "as many tasks of its array run as are allowed at a time",
    "ReqNodeNotAvail, May be reserved for other job": "nodes that it needs are reserved for another job",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": (
        "nodes that it needs are down, drained or reserved for jobs in partitions of higher priority"
    ),
}
# Families of reasons: a limit of the QOS, the account or the association is reached, or lower than the job needs.
_LIMITS = (
    (
        re.compile(r"^(QOS|Assoc).*(PerJob|PerNode|WallDurationPerJob.*)(Limit)?$"),
        "will never start: it asks for more than the {owner} allows one job; ask for less, or change qos or account",
    ),
    (
        re.compile(r"^(QOS|Assoc)(Max|Grp).*$"),
        "a limit of the {owner} is reached; it starts when other jobs under that limit have ended",
    ),
)


def explain(reason: str, job_id: int) -> str:
    """Return a clause that explains a pending job's reason; for an unknown one, refer to squeue's manual."""
    if not reason or reason == "None":
        return _WORDS["None"]
    words = _WORDS.get(reason) or _WORDS.get(reason.partition(",")[0]) or _limit(reason) or "see squeue's manual"
    return f"{reason}: {words.format(job=job_id)}"


def never_starts(reason: str) -> bool:
    """Return whether a job with this reason stays pending until somebody changes it."""
    return "will never start" in explain(reason, 0)


def _limit(reason: str) -> str | None:
    for pattern, words in _LIMITS:
        if found := pattern.match(reason):
            return words.replace("{owner}", "QOS" if found[1] == "QOS" else "account")
    return None
