"""Automations of a Prefect server that notify people of failed, stalled and completed runs."""
