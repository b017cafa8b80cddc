"""Checkpoint import and training with Megatron-Bridge: render, launch, follow, verify."""
