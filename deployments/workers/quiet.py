"""Preload module of every local Dask worker (``distributed.worker.preload``): silences Dask's internal warnings."""

import logging

# Dask profiles its workers for the report, and warns if a call tree is too deep for it to measure.
logging.getLogger("distributed.sizeof").setLevel(logging.ERROR)
