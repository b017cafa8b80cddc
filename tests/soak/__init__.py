"""A random sweep: whole flows are killed at random moments, rerun, and compared with an undisturbed run."""
