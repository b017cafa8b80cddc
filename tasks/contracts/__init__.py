"""Models only: settings, layout, errors, receipts, plan, manifest; imports no Prefect, Dask, torch or pyarrow."""
