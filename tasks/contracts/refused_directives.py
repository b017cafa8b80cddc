"""sbatch options that a job of the pool must not use, because the worker would lose track of the job.

Names are from sbatch's manual. Like getopt_long, sbatch accepts any unique prefix of a long option.
"""

import shlex

_ARRAY = "the flow would run once for each task of the array; create a run for each instead"
_CLUSTER = (
    "the job would go to a cluster that this worker does not watch, and count as lost; start a worker on that cluster, "
    "with a work pool of its own"
)
_OTHER_USER = "the job would belong to somebody else; start the worker as that user"
_REQUEUE = "Slurm and the worker would both restart the run; set the variable requeue"

_LONG = {
    "array": _ARRAY,
    "cluster-constraint": _CLUSTER,
    "clusters": _CLUSTER,
    "gid": _OTHER_USER,
    "job-name": "jobs of Dask workers are found by their name; set the variable job_name",
    "jobid": "the number of a job is Slurm's to give; leave it out",
    "no-requeue": _REQUEUE,
    "requeue": _REQUEUE,
    "test-only": "nothing would be submitted; look at the script with: datacomp-energon render",
    "uid": _OTHER_USER,
    "wait": "sbatch would not return before the job has ended; leave it out",
    "wrap": "there is a script already; set the run's command, or setup",
}
_SHORT = {"a": "array", "J": "job-name", "M": "clusters", "W": "wait"}
_SHORT_FLAGS = frozenset("HOQVhksuv")
"""Short options without a value: another option may follow in the same word."""

_HETEROGENEOUS = frozenset({"hetjob", "packjob"})


def refusal(line: str) -> str | None:
    """Return why a raw script line is rejected and what to do; None if it is accepted."""
    if line.startswith("#") and not line.startswith("#SBATCH"):
        other = line.startswith(("#PBS", "#BSUB"))
        return "sbatch reads it as an option of another system; write it as sbatch's own" if other else None
    try:
        words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
    except ValueError as error:
        return f"it cannot be read ({error}); close the quote"
    return next((why for why in map(_refused_word, words) if why), None)


def _refused_word(word: str) -> str | None:
    if word in _HETEROGENEOUS:
        return f"{word}: the job would become several, of which the worker watches one; leave it out"
    if word.startswith("--"):
        name = word[2:].partition("=")[0]
        long = next((option for option in _LONG if name and option.startswith(name)), None)
        return f"--{long}: {_LONG[long]}" if long else None
    if not word.startswith("-"):
        return None
    short = next((letter for letter in word[1:] if letter not in _SHORT_FLAGS), "")
    return f"-{short}, --{_SHORT[short]}: {_LONG[_SHORT[short]]}" if short in _SHORT else None
