"""Reading and writing what lies on disk: files, fingerprints, locks, tars, tables."""
