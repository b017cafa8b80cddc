"""The exit status of a process, for people."""

import re
import signal


def signal_name(number: int) -> str:
    """Return SIGSEGV for 11, and "signal 99" for a number that has no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_code_words(code: int) -> str:
    """Return "exit code 3"; above 128, where a shell says that a signal ended what it ran, with the signal's name."""
    return f"exit code {code} ({signal_name(code - 128)})" if code > 128 else f"exit code {code}"


def describe_exit(code: int) -> str:
    """Return "ended with exit code 3", or "was ended by SIGSEGV" for a negative code, as subprocess has them."""
    return f"was ended by {signal_name(-code)}" if code < 0 else f"ended with {exit_code_words(code)}"


def name_signals(message: str) -> str:
    """Return Prefect's message with the names of signals: "status code: -11" becomes "SIGSEGV"."""
    return re.sub(r"status code:? -(\d+)", lambda found: signal_name(int(found[1])), message)
