"""What was indexed as rows: files, units of code, passages of documents, commits."""
