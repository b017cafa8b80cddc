"""Index and check stages: index a dataset with Megatron-Energon and read it back through Energon's loader."""
