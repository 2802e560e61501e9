"""Vectors of unit length, and the names of the spaces they live in."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from harken.providers.embedder import Vectors


def unit_rows(matrix: NDArray[np.float32]) -> Vectors:
    """The rows scaled to length one: `(n, dims)` float32.

    Raises:
        ValueError: a row is zero or not finite, so it points nowhere.
    """
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.all(np.isfinite(lengths)) or np.any(lengths == 0):
        raise ValueError("a vector is zero or not finite")
    return np.asarray(matrix / lengths, dtype=np.float32)


def space_id(model: str, variant: str, dims: int, passage_prefix: str = "") -> str:
    """A stable name: models that place the same text elsewhere get different ones.

    Args:
        model: its name.
        variant: what else decides where a text lies: quantization, a file's hash, pooling.
        dims: length of a vector.
        passage_prefix: changes every stored vector, so it is part of the name; a query's prefix changes none.
    """
    name = f"{model}/{variant}/{dims}" if variant else f"{model}/{dims}"
    mark = hashlib.sha256(passage_prefix.encode()).hexdigest()[:6] if passage_prefix else ""
    return f"{name}/{mark}" if mark else name
