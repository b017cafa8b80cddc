"""The `datacomp-energon` command: arguments, terminal output, our own Prefect server, programs without a flow."""

import os

# Prefect reads these variables when it is imported: our programs send no telemetry.
os.environ.setdefault("DO_NOT_TRACK", "1")
