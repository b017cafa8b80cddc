"""What knows Prefect and Dask for all stages: cache policy, retries, fan-out, groups, progress, outcomes."""
