"""Harken: turns are imported as JSONL, and embedded with its own model."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from protocol import EVERYTHING, Adapter, Row, serve

from harken.engine import Harken
from harken.model.conversations import SearchScope
from harken.record.ids import conversation_uid


class HarkenAdapter(Adapter):
    """The library, as `harken import` and `harken search` use it."""

    def open(self, folder: str, model: str, paths: Mapping[str, str]) -> None:
        """Open a home."""
        if model == "given":
            from models import GivenVectors

            from harken.providers.embedders.onnx import OnnxEmbedder

            given = GivenVectors()
            OnnxEmbedder._embed = lambda self, texts, is_query: given.embed(texts)  # type: ignore[method-assign]
        self._files, self._batches = Path(folder), 0
        self._names: dict[str, str] = {}
        self._has_model = model != "none"
        settings = {"none": {"embedder": "none"}, "convex": {"search.fusion": "convex"}}.get(model, {})
        self._harken = Harken(Path(folder) / "home", settings=settings)

    def store(self, rows: Sequence[Row]) -> None:
        """Import a file for each talk, and embed."""
        talks = defaultdict(list)
        for row in rows:
            line = {"conversation": row.talk, "id": row.id, "author": row.author, "content": row.text, "ts": row.time}
            role = "user" if row.author == rows[0].author else "assistant"
            talks[row.talk].append(json.dumps({**line, "role": role}) + "\n")
        folder = self._files / f"import-{self._batches}"
        folder.mkdir()
        self._batches += 1
        for talk, lines in talks.items():
            (folder / f"{talk}.jsonl").write_text("".join(lines), encoding="utf-8")
        self._harken.import_transcripts("jsonl", [folder])
        if self._has_model:
            self._harken.embed()

    def search(self, query: str, group: str, limit: int, rerank: bool) -> Any:
        """By words and meaning."""
        scope = None if group == EVERYTHING else SearchScope(conversation=conversation_uid("jsonl", group))
        return self._harken.search(query, scope=scope, limit=limit, rerank=rerank).hits

    def ids(self, found: Any) -> list[str]:
        """The ids that the messages had in their files."""
        uids = [hit.entry.ref_uid for hit in found]
        for uid in set(uids) - self._names.keys():
            message = self._harken.show(uid, 0).message
            self._names[uid] = message.external_id if message else ""
        return [self._names[uid] for uid in uids]


if __name__ == "__main__":
    serve(HarkenAdapter())
