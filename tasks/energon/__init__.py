"""Index the prepared dataset with Megatron-Energon, and read it back through Energon's own loader."""
