"""mem0ai: `infer=False`, embedded Qdrant, words (fastembed's BM25) beside vectors, no telemetry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastembed import SparseTextEmbedding
from mem0 import Memory
from mem0.embeddings.base import EmbeddingBase
from mem0.utils.factory import EmbedderFactory
from models import DIMS, embedder
from protocol import Adapter, Row, serve

_chosen: list[Any] = []


class Embedding(EmbeddingBase):
    """An embedder by its own base class."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """The vector of a text."""
        return _chosen[0].embed([text])[0].tolist()

    def embed_batch(self, texts: list[str], memory_action: str | None = "add") -> list[list[float]]:
        """The vectors of texts."""
        return _chosen[0].embed(texts).tolist()


class Mem0Adapter(Adapter):
    """A group is a user."""

    def open(self, folder: str, model: str, paths: Mapping[str, str]) -> None:
        """Open or make the memory."""
        _chosen[:] = [embedder(model, paths)]
        # Providers are a closed list; this one is filled by the embedder above.
        EmbedderFactory.provider_to_class["huggingface"] = f"{__name__}.Embedding"
        place = {"path": str(Path(folder) / "qdrant"), "on_disk": True, "embedding_model_dims": DIMS}
        self._memory = Memory.from_config(
            {
                "embedder": {"provider": "huggingface", "config": {"embedding_dims": DIMS}},
                "vector_store": {"provider": "qdrant", "config": {**place, "collection_name": "turns"}},
                "llm": {"provider": "openai", "config": {"api_key": "none is asked"}},
                "history_db_path": str(Path(folder) / "history.db"),
            }
        )
        # The model of this name is a list of stop words, fetched from a hub; here it is a file.
        words = SparseTextEmbedding("Qdrant/bm25", specific_model_path=paths["bm25"])
        self._memory.vector_store._bm25_encoder = words

    def store(self, rows: Sequence[Row]) -> None:
        """One by one: metadata are of a whole call."""
        for row in rows:
            said = [{"role": "user", "content": row.said}]
            self._memory.add(said, user_id=row.group, metadata={"turn": row.id}, infer=False)

    def search(self, query: str, group: str, limit: int, rerank: bool) -> Any:
        """Semantic and keyword scores, fused."""
        found = self._memory.search(query, filters={"user_id": group}, top_k=limit, threshold=0.0)
        return [each["metadata"]["turn"] for each in found["results"]]


if __name__ == "__main__":
    serve(Mem0Adapter())
