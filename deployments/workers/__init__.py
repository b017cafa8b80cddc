"""Where Dask workers come from: this machine, Slurm jobs of their own, or the nodes of the flow's own job."""
