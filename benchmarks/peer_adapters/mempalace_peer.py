"""MemPalace: a drawer a turn, put in by batches as its miner does; a wing a group; candidates by words and meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mempalace import embedding
from mempalace.palace import get_collection
from mempalace.searcher import search_memories
from protocol import Adapter, Row, serve


class MemPalaceAdapter(Adapter):
    """Drawers by the collection that its miner writes to."""

    def open(self, folder: str, model: str, paths: Mapping[str, str]) -> None:
        """Open or make the palace."""
        if model != "own":
            self._embed_by(model, paths)
        self._palace = folder
        self._drawers = get_collection(folder)

    def _embed_by(self, model: str, paths: Mapping[str, str]) -> None:
        from models import embedder

        chosen, own = embedder(model, paths), embedding._build_ef_class()

        class Embedding(own):  # type: ignore[misc, valid-type]
            """Its embedding function under its own name, which the collection asks for."""

            def __call__(self, input: list[str]) -> Any:
                return list(chosen.embed(input))

            def embed_query(self, input: list[str]) -> Any:
                """The vectors of queries."""
                return list(chosen.embed(input))

        embedding._build_ef_class = lambda: Embedding

    def store(self, rows: Sequence[Row]) -> None:
        """Upsert a batch."""
        now = datetime.now().isoformat()
        self._drawers.upsert(
            ids=[f"{row.group}/{row.id}" for row in rows],
            documents=[row.said for row in rows],
            metadatas=[
                {"wing": row.group, "room": "talk", "source_file": row.id, "filed_at": now, "chunk_index": 0}
                for row in rows
            ],
        )

    def search(self, query: str, group: str, limit: int, rerank: bool) -> Any:
        """Its own search: vectors and words give candidates, both give the order."""
        best = {"candidate_strategy": "union", "lang": "en"}
        found = search_memories(query, self._palace, wing=group, n_results=limit, **best)
        return [hit["source_path"] for hit in found["results"]]


if __name__ == "__main__":
    serve(MemPalaceAdapter())
