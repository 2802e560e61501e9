"""engram-search: its FAISS store and its whole pipeline, as in its README; dates stand before the text."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from engram.backends.base import Document
from engram.backends.faiss_backend import FaissBackend
from engram.retrieval.embedder import Embedder
from engram.retrieval.pipeline import RetrievalPipeline
from models import DIMS, CrossEncoder, embedder
from protocol import Adapter, Row, serve


class Embedding:
    """Vectors from elsewhere, by the names of its embedder."""

    def __init__(self, model: str, paths: Mapping[str, str]) -> None:
        self.encode_documents = embedder(model, paths).embed

    def encode_query(self, text: str) -> np.ndarray:
        """The vector of a query."""
        return self.encode_documents([text])[0]


class Reranker(CrossEncoder):
    """A cross-encoder in place of the one that is not at hand."""

    def rerank(self, query: str, documents: list[str], top_k: int | None = None) -> list[tuple[int, float]]:
        """Places and scores, best first."""
        scores = self.scores(query, documents)
        return [(int(place), float(scores[place])) for place in np.argsort(-scores)][:top_k]


class EngramAdapter(Adapter):
    """Documents live in memory beside the store, as its pipeline takes them."""

    def open(self, folder: str, model: str, paths: Mapping[str, str]) -> None:
        """Read what is stored."""
        self._paths, self._embedder = (
            paths,
            Embedder(paths["minilm-torch"]) if model == "own" else Embedding(model, paths),
        )
        self._backend = FaissBackend(path=folder, dimension=DIMS)
        self._pipelines: dict[bool, RetrievalPipeline] = {}
        self._documents = defaultdict(list)
        stored = self._backend._conn.execute("SELECT id, text, metadata, faiss_idx FROM documents").fetchall()
        for name, text, metadata, place in stored:
            vector = self._backend._index.reconstruct(place).tolist()
            document = Document(id=name, text=text, embedding=vector, metadata=json.loads(metadata))
            self._documents[document.metadata["group"]].append(document)

    def store(self, rows: Sequence[Row]) -> None:
        """Embed and add a batch."""
        texts = [f"[{row.time[:10]}] {row.said}" for row in rows]
        documents = []
        for row, text, vector in zip(rows, texts, self._embedder.encode_documents(texts), strict=True):
            metadata = {"id": row.id, "group": row.group, "timestamp": row.time}
            document = Document(f"{row.group}/{row.id}", text, vector.tolist(), metadata)
            documents.append(document)
            self._documents[row.group].append(document)
        self._backend.add(documents)

    def search(self, query: str, group: str, limit: int, rerank: bool) -> Any:
        """Dense, sparse, names and dates, fused; with the cross-encoder where it is asked for."""
        if rerank not in self._pipelines:
            chosen = Reranker(self._paths["reranker"], 512) if rerank else None
            self._pipelines[rerank] = RetrievalPipeline(self._embedder, chosen, use_reranker=rerank)
        found = self._pipelines[rerank].search(query, self._documents[group], top_k=limit)
        return [document.metadata["id"] for document in found]


if __name__ == "__main__":
    serve(EngramAdapter())
