"""The quickstart's own small web: generated pictures, the real web's faults, metadata that lists both."""
