"""Audit every raw shard against its stats, index it, and hold the totals to the gate."""
