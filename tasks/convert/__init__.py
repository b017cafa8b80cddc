"""Convert raw shards into ChatML Energon tars: scan every shard, plan once, write every tar."""
