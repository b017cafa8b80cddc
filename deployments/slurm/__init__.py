"""The Slurm work pool: a Prefect worker (type ``slurm-sbatch``) that drives Slurm's command line tools."""
