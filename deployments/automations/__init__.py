"""Automations of a Prefect server, which tell people of runs that failed, stalled or completed."""
