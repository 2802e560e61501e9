"""Code, commits and documents of a folder, made searchable."""
