"""What people trigger: one module a flow, each also a program (``python -m flows.<module>``)."""
