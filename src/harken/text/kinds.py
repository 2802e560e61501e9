"""What kind of text a vector is of: linear classifiers over the vectors of the models that they were trained by.

A kind is told by one dot product. To compare with examples of it, these have to be embedded first by every process that
asks, and one that lies nearer to an example than to the rest of its kind decides alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What asks for nothing that was said; what states a rule or a preference; what the world answers, or a task that needs
# nothing of what was said.
TALK, RULE, WORLD = "talk", "rule", "world"


def leaning(kind: str, space: str, vectors: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """How much the texts of some vectors lean to a kind, `(n,)` float32: log-odds, of which those above 0 are of it.

    Args:
        kind: `TALK`, `RULE` or `WORLD`.
        space: the name of the vectors' space, which is its model's or begins with that.
        vectors: `(n, dims)` float32, unit length.
    Returns:
        None where the classifier was trained by no vectors of this model.
    """
    made = next((each for model, each in _trained(kind).items() if f"{space}/".startswith(f"{model}/")), None)
    if made is None:
        return None
    weights, bias = made
    leaned: NDArray[np.float32] = vectors @ weights + bias
    return leaned


def is_told(kind: str, space: str) -> bool:
    """Whether a classifier of this kind was trained by vectors of a space's model."""
    return any(f"{space}/".startswith(f"{model}/") for model in _trained(kind))


@cache
def _trained(kind: str) -> Mapping[str, tuple[NDArray[np.float32], float]]:
    """By the model's name, weights `(dims,)` and bias of `data/kinds.json`, which `benchmarks/train_kinds.py` makes."""
    # Here, for whoever opens a store imports this module, and few of them compare vectors.
    import numpy as np

    kept = json.loads(resources.files(__package__).joinpath("data/kinds.json").read_text("utf-8"))[kind]
    return {
        model: (np.frombuffer(base64.b64decode(each["weights"]), dtype="<f2").astype(np.float32), float(each["bias"]))
        for model, each in kept.items()
    }
