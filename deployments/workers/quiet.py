"""What every Dask worker of this machine loads first (``distributed.worker.preload``): no warnings of Dask's about
itself."""

import logging

# Dask profiles its workers for the report, and warns of call trees that are too deep for it to weigh.
logging.getLogger("distributed.sizeof").setLevel(logging.ERROR)
