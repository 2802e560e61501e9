"""The embedded engine: one file, many processes, full text by FTS5, nearest vectors by a derived cache."""
