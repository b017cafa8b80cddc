"""The Slurm client: commands, states, parsing, reasons."""
