"""What is remembered beside conversations, wired together: each source with its verbs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from harken.errors import MissingExtraError, ProviderError
from harken.jobs.spaces import Spaces
from harken.model.conversations import DERIVED_SOURCES, SearchScope
from harken.providers.clusters import Float32, unit
from harken.providers.embedder import Embedder
from harken.record.project import identify_project
from harken.record.record_writer import RecordKeeper
from harken.record.recorder import Recorder
from harken.sources.experiences.experiences import Experiences
from harken.sources.experiences.values import Values
from harken.sources.memories.memories import Memories, SearchPort
from harken.sources.searches import SourceSearcher
from harken.sources.workspace.indexes import open_indexes
from harken.storage.ports import RowScope, Store

_MEMORIES = RowScope(sources=("memory",))
_MOST_WAITING, _MOST_FRESH = 64, 256

_log = structlog.get_logger(__name__)


class SourceVerbs:
    """The verbs of every source.

    Args:
        search: the one retrieval path.
        spaces: the models by which texts are compared.
    """

    def __init__(self, recorder: Recorder, search: SearchPort, spaces: Spaces) -> None:
        keeper = RecordKeeper(recorder)
        compare = _Comparison(recorder.store, spaces)
        self.kept = (
            Memories(recorder.store, keeper, search, identify_project, compare),
            Experiences(recorder.store, keeper, identify_project),
            Values(recorder.store, keeper, spaces.answering),
        )
        self.indexes = open_indexes(recorder.store, recorder.redactor, search, recorder.wake, recorder.now)
        self.sources = SourceSearcher(recorder.store, search)


def said_or_saved(scope: SearchScope | None) -> SearchScope:
    """The scope; one that names neither sources nor facets leaves out what is read from the disk."""
    given = scope or SearchScope()
    if given.sources or given.facets or given.without_sources:
        return given
    return replace(given, without_sources=DERIVED_SOURCES)


@dataclass(slots=True)
class _Comparison:
    """Compares a text with entries by meaning: by their vectors, or by its own of those that wait to be embedded.

    Attributes:
        fresh: vectors that no row holds yet, by space and hash of the text, so that saving many embeds each once.
    """

    store: Store
    spaces: Spaces
    fresh: dict[tuple[str, int], Float32] = field(default_factory=dict)

    def __call__(self, text: str, others: Mapping[int, str]) -> Mapping[int, float]:
        try:
            found = self.spaces.answering()
            embedder = self.spaces.embedder() if found is None else found.embedder
            if embedder is None or not others:
                return {}
            [vector] = self._vectors(embedder, [text])
            told: dict[int, float] = {}
            if found is not None:
                with self.store.reading() as tx:
                    _, told = self.store.nearest.compare(tx, found.space, vector, _MEMORIES, 1, list(others))
            # The newest wait longest to be embedded, and are the likeliest to be said again.
            waiting = [entry_id for entry_id in others if entry_id not in told][-_MOST_WAITING:]
            vectors = self._vectors(embedder, [others[entry_id] for entry_id in waiting])
        except (ProviderError, MissingExtraError) as error:
            # Duplicates are then known by their words alone.
            _log.warning("not_compared_by_meaning", error_class=type(error).__name__)
            return {}
        fresh = {entry_id: float(one @ vector) for entry_id, one in zip(waiting, vectors, strict=True)}
        return {entry_id: told[entry_id] for entry_id in others if entry_id in told} | fresh

    def _vectors(self, embedder: Embedder, texts: Sequence[str]) -> list[Float32]:
        space = embedder.space.id
        keys = {text: (space, hash(text)) for text in texts}
        known = {text: self.fresh[key] for text, key in keys.items() if key in self.fresh}
        missing = [text for text in keys if text not in known]
        if missing:
            known |= {text: unit(one) for text, one in zip(missing, embedder.embed_passages(missing), strict=True)}
            self.fresh |= {keys[text]: known[text] for text in missing}
            for key in list(self.fresh)[:-_MOST_FRESH]:
                self.fresh.pop(key, None)
        return [known[text] for text in texts]
