"""Fetch and verify the pinned metadata files of a slice."""
