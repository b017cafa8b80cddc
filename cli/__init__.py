"""The `datacomp-energon` command: arguments, terminal output, our own Prefect server, programs without a flow."""

import os

# Read when Prefect is imported: our programs send nothing to anybody.
os.environ.setdefault("DO_NOT_TRACK", "1")
