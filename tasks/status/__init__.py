"""How far a data root is: told from receipts, names, sizes and times, without a server and without reading data."""
