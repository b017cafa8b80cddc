"""Faults for whole flows, injected into worker processes: the product contains no code for them."""
