"""chromadb: an embedded collection by cosine, its own embedding function or vectors that come with the texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import chromadb
from chromadb.config import Settings
from protocol import Adapter, Row, serve

# What one call of `add` takes at most is about twice as much.
_BATCH = 2_500


class ChromaAdapter(Adapter):
    """Nearest vectors among the rows of a group."""

    def open(self, folder: str, model: str, paths: Mapping[str, str]) -> None:
        """Open or make the collection."""
        client = chromadb.PersistentClient(folder, settings=Settings(anonymized_telemetry=False))
        self._turns = client.get_or_create_collection("turns", configuration={"hnsw": {"space": "cosine"}})
        self._model = None
        if model != "own":
            from models import embedder

            self._model = embedder(model, paths)

    def store(self, rows: Sequence[Row]) -> None:
        """In batches."""
        for start in range(0, len(rows), _BATCH):
            part = rows[start : start + _BATCH]
            texts = [row.said for row in part]
            vectors = {} if self._model is None else {"embeddings": self._model.embed(texts)}
            metadata: Any = [{"group": row.group, "id": row.id} for row in part]
            self._turns.add(
                ids=[f"{row.group}/{row.id}" for row in part], documents=texts, metadatas=metadata, **vectors
            )

    def search(self, query: str, group: str, limit: int, rerank: bool) -> Any:
        """The ids, nearest first."""
        asked: Any = {"query_texts": [query]}
        if self._model is not None:
            asked = {"query_embeddings": self._model.embed([query])}
        found = self._turns.query(**asked, n_results=limit, where={"group": group})
        return [each["id"] for each in found["metadatas"][0]]


if __name__ == "__main__":
    serve(ChromaAdapter())
