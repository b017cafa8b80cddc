"""Audit stage: check every raw shard against its stats, index it, and check the totals against the gate."""
