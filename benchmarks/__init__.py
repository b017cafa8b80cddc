"""What the performance claims rest on: generated shards, and ratios measured side by side in one run."""
