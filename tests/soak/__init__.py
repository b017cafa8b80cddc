"""A random sweep: whole flows are killed at any moment, started again, and compared with an undisturbed run."""
