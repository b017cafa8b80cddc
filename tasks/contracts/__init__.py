"""Models and types that every part shares: settings, layout, errors. Never imports Prefect, Dask, torch or pyarrow."""
