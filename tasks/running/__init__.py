"""The layer between the stages and Prefect and Dask: cache policy, retries, fan-out, groups, progress, outcomes."""
