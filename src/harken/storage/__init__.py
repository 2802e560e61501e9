"""Where records, entries and vectors are kept; engines differ only in their own folders."""
