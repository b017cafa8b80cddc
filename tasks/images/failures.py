"""Classification of img2dataset's failure reasons: free text from the network, the server or the decoder."""

import re
from collections.abc import Mapping

NAME_RESOLUTION = re.compile(
    r"name resolution|Name or service not known|No address associated|nodename nor servname|getaddrinfo"
)
TRANSIENT = re.compile(
    rf"{NAME_RESOLUTION.pattern}|timed out|took too long|HTTP Error (408|429|5\d\d)|[Cc]onnection reset|"
    r"Remote end closed|IncompleteRead|[Nn]etwork is unreachable|No route to host"
)
NETWORK_FAILURE = re.compile(
    rf"{TRANSIENT.pattern}|HTTP Error|urlopen error|[Cc]onnection|X-Robots-Tag|answer is too large|SSL|CERTIFICATE|"
    r"certificate|url type|URL can't contain|codec can't encode|BadStatusLine|nonnumeric port|bad.*[Hh]ost|Unicode"
)


def count_matching(failures: Mapping[str, int], pattern: re.Pattern[str]) -> int:
    """Return the number of failures whose reason matches."""
    return sum(number for reason, number in failures.items() if pattern.search(reason))


def count_opt_outs(failures: Mapping[str, int]) -> int:
    """Return the number of images whose site forbids their use (X-Robots-Tag)."""
    return count_matching(failures, re.compile("X-Robots-Tag"))


def is_mostly_transient(failures: Mapping[str, int]) -> bool:
    """Return whether more than half of these failures may succeed on a retry."""
    return count_matching(failures, TRANSIENT) > sum(failures.values()) / 2
