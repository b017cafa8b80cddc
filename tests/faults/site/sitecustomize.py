"""Python imports this at startup if this folder is on PYTHONPATH, as in a test's workers."""

import os

if "FAULTS" in os.environ:
    from tests.faults.inject import install

    install()
