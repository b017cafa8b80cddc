"""Reading and writing files on disk: JSON, fingerprints, locks, tars, tables."""
