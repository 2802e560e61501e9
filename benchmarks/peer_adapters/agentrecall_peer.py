"""agentrecall-db: a file for each group, which finds more than one file with namespaces, filtered after the cut."""

from __future__ import annotations

import sqlite3
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

# Some builds of Python cannot load SQLite's extensions, which its vectors are; words alone need none.
if not hasattr(sqlite3.Connection, "enable_load_extension"):
    with suppress(ImportError):
        import pysqlite3

        sys.modules["sqlite3"] = pysqlite3

from agentrecall import Memory
from protocol import Adapter, Row, serve


class Embedding:
    """An embedder as its README describes one."""

    def __init__(self, model: str, paths: Mapping[str, str]) -> None:
        from models import DIMS, embedder

        self.dim = DIMS
        self._model = embedder(model, paths)

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Vectors as lists."""
        return self._model.embed(texts).tolist()


class AgentRecallAdapter(Adapter):
    """Keyword recall without a model, hybrid with one."""

    def open(self, folder: str, model: str, paths: Mapping[str, str]) -> None:
        """Nothing is opened before its group is known."""
        self._folder, self._open = Path(folder), {}
        self._embedder = None if model == "none" else Embedding(model, paths)

    def _memory(self, group: str) -> Memory:
        if group not in self._open:
            chosen = {"embeddings": self._embedder is not None, "embedder": self._embedder}
            self._open[group] = Memory(self._folder / f"{group}.db", **chosen)
        return self._open[group]

    def store(self, rows: Sequence[Row]) -> None:
        """By `add_many`, its batch call."""
        groups = defaultdict(list)
        for row in rows:
            groups[row.group].append({"content": row.said, "metadata": {"id": row.id}})
        for group, items in groups.items():
            self._memory(group).add_many(items)

    def search(self, query: str, group: str, limit: int, rerank: bool) -> Any:
        """The memories that are found."""
        return [hit.record.metadata["id"] for hit in self._memory(group).search(query, k=limit)]


if __name__ == "__main__":
    serve(AgentRecallAdapter())
