"""Python imports this at its start in processes that have this folder on their PYTHONPATH: a test's workers."""

import os

if "FAULTS" in os.environ:
    from tests.faults.inject import install

    install()
