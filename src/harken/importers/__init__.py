"""One file per foreign way of writing conversations down, and the importer."""
