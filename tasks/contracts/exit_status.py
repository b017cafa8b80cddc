"""Exit statuses of processes, in words."""

import re
import signal


def signal_name(number: int) -> str:
    """Return a signal's name: SIGSEGV for 11, "signal 99" for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_code_words(code: int) -> str:
    """Return "exit code 3". Above 128 add the signal's name: a shell reports 128 + n if signal n ended a command."""
    return f"exit code {code} ({signal_name(code - 128)})" if code > 128 else f"exit code {code}"


def describe_exit(code: int) -> str:
    """Return "ended with exit code 3", or "was ended by SIGSEGV" for -11: subprocess negates a signal's number."""
    return f"was ended by {signal_name(-code)}" if code < 0 else f"ended with {exit_code_words(code)}"


def name_signals(message: str) -> str:
    """Return Prefect's message with signal names: "status code: -11" becomes "SIGSEGV"."""
    return re.sub(r"status code:? -(\d+)", lambda found: signal_name(int(found[1])), message)
