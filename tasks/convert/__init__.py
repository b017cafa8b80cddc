"""Convert stage: raw shards become ChatML Energon tars. It scans every shard, plans once, and writes every tar."""
