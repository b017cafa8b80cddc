"""Status of a data root, from receipts and file names, sizes and times; needs no server and reads no data."""
