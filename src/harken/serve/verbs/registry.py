"""All verbs, by name."""

from __future__ import annotations

from harken.errors import NotFoundError
from harken.serve.verbs import assembled, indexed, learned, said, saved
from harken.serve.verbs.verb import Verb

_ALL = (*said.VERBS, *assembled.VERBS, *saved.VERBS, *learned.VERBS, *indexed.VERBS)
VERBS: dict[str, Verb] = {verb.name: verb for verb in _ALL}


def verb_of(name: str) -> Verb:
    """The verb of that name.

    Raises:
        NotFoundError: there is none.
    """
    if name not in VERBS:
        raise NotFoundError(f"There is no '{name}'. There are: {', '.join(VERBS)}.")
    return VERBS[name]
