"""Embedders, one file per way of reaching a model."""
