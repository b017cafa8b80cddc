"""The Slurm work pool: a Prefect worker (type ``slurm-sbatch``) that uses Slurm's command line tools."""
