"""What people trigger: one module a flow, each also a program (``python -m flows.<module>``)."""

import os

from tasks.contracts.certificates import exit_if_unreadable

# Read when Prefect is imported, which every flow module does next: our programs send nothing to anybody.
os.environ.setdefault("DO_NOT_TRACK", "1")
exit_if_unreadable()
