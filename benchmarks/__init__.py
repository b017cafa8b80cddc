"""Benchmarks behind the performance claims: generated shards, and ratios measured side by side in one run."""
