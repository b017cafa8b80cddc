"""The flows: one module for each, which is also a program (``python -m flows.<module>``)."""

import os

from tasks.contracts.certificates import exit_if_unreadable

# Every flow module imports Prefect next, which then reads these variables: our programs send no telemetry.
os.environ.setdefault("DO_NOT_TRACK", "1")
exit_if_unreadable()
