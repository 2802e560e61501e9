"""Models behind ports: embedders and rerankers, local and remote."""
