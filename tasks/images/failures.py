"""What img2dataset's reasons for failures mean: they are free text, from the network, the server or the decoder."""

import re
from collections.abc import Mapping

NAME_RESOLUTION = re.compile(
    r"name resolution|Name or service not known|No address associated|nodename nor servname|getaddrinfo"
)
TRANSIENT = re.compile(
    rf"{NAME_RESOLUTION.pattern}|timed out|took too long|HTTP Error (408|429|5\d\d)|[Cc]onnection reset|"
    r"Remote end closed|IncompleteRead|[Nn]etwork is unreachable|No route to host"
)
OF_THE_NETWORK = re.compile(
    rf"{TRANSIENT.pattern}|HTTP Error|urlopen error|[Cc]onnection|X-Robots-Tag|answer is too large|SSL|CERTIFICATE|"
    r"certificate|url type|URL can't contain|codec can't encode|BadStatusLine|nonnumeric port|bad.*[Hh]ost|Unicode"
)


def count_matching(failures: Mapping[str, int], pattern: re.Pattern[str]) -> int:
    """How many failures have a reason that matches."""
    return sum(number for reason, number in failures.items() if pattern.search(reason))


def opted_out(failures: Mapping[str, int]) -> int:
    """Pictures that their site does not want to be used (X-Robots-Tag)."""
    return count_matching(failures, re.compile("X-Robots-Tag"))


def mostly_transient(failures: Mapping[str, int]) -> bool:
    """Whether more than half of these failures may go away by themselves."""
    return count_matching(failures, TRANSIENT) > sum(failures.values()) / 2
