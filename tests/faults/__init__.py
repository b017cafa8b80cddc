"""Faults for whole flows, put into worker processes from outside: no line of the product knows of them."""
