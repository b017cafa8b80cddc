"""GPU stages: checkpoint import and training with Megatron-Bridge, from rendering and launch to verification."""
