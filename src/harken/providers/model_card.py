"""What must be known of an embedding model beside its weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harken.errors import ModelFileError
from harken.providers.embedder import Space, space_id
from harken.providers.options import EmbedderOptions

CARD_FILE = "harken.json"

_COUNT = ((int,), lambda value: value > 0, "must be a whole number above 0")
_TEXT = ((str,), lambda value: True, "must be a text")
_RULES: dict[str, tuple[tuple[type, ...], Callable[[Any], bool], str]] = {
    "dims": _COUNT,
    "max_tokens": _COUNT,
    "pooling": ((str,), lambda value: value in ("cls", "mean"), "must be cls or mean"),
    "query_prefix": _TEXT,
    "passage_prefix": _TEXT,
    "threshold": ((int, float), lambda value: -1 <= value <= 1, "must be a number from -1 to 1"),
    "latin_only": ((bool,), lambda value: True, "must be true or false"),
}


@dataclass(frozen=True, slots=True)
class ModelCard:
    """How a sentence model is used; the defaults suit most of those that are published.

    Attributes:
        dims: length of a vector; None is read from the model.
        max_tokens: most tokens the model takes.
        pooling: `cls` takes the first token's state for the text's, `mean` the average of all.
        threshold: cosine similarity below which a text is not about the query; 0.5 is no calibration.
        latin_only: the model knows no script but the Latin one.
    """

    dims: int | None = None
    max_tokens: int = 512
    pooling: str = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""
    threshold: float = 0.5
    latin_only: bool = False

    def adjusted(self, options: EmbedderOptions) -> ModelCard:
        """The card with what the options set in its place; `max_tokens` only goes down."""
        card = self
        for name in ("dims", "query_prefix", "passage_prefix", "threshold"):
            value = getattr(options, name)
            if value is not None:
                card = replace(card, **{name: value})
        if options.max_tokens is not None:
            card = replace(card, max_tokens=min(options.max_tokens, card.max_tokens))
        return card

    def space(self, model: str, variant: str, dims: int) -> Space:
        """The space that a model with this card spans.

        Args:
            model: its name.
            variant: what else decides where a text lies: quantization, a file's hash, pooling; may be empty.
            dims: length of a vector.
        """
        return Space(
            id=space_id(model, variant, dims, self.passage_prefix),
            dims=dims,
            max_tokens=self.max_tokens,
            query_prefix=self.query_prefix,
            passage_prefix=self.passage_prefix,
            threshold=self.threshold,
            latin_only=self.latin_only,
        )


def read_card(folder: Path) -> ModelCard | None:
    """The card that a model's folder holds as `harken.json`, if it holds one.

    Raises:
        ModelFileError: the card cannot be read, or says something that cannot be meant.
    """
    path = folder / CARD_FILE
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read as JSON ({type(error).__name__})") from error
    if not isinstance(facts, dict):
        raise ModelFileError(f"{path} must hold one JSON object")
    for key, value in facts.items():
        problem = _problem(key, value)
        if problem:
            raise ModelFileError(f"{path}: '{key}' {problem}")
    return ModelCard(**facts)


def _problem(key: str, value: Any) -> str | None:
    if key not in _RULES:
        return f"is not known; known: {', '.join(_RULES)}"
    kinds, accepts, rule = _RULES[key]
    if (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds) or not accepts(value):
        return rule
    return None
