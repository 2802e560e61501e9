"""Records of kept sources as rows: a file per source, and the registry that names them all."""
