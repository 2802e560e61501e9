"""Conversations and vectors that are made up but weigh like real ones, the same for the same seed.

Words come from the embedding model's own vocabulary, which is in order of frequency; Zipf's law picks them, a
conversation's few topics lift some, and names of tickets and files, each used once or twice, make the long tail.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harken.providers.model_files import BGE_SMALL, find_model

MEAN_WORDS = 23
PROJECTS = 20
_LENGTH_SPREAD = 0.55
_TOPICS, _TOPIC_WORDS, _TOPIC_SHARE = 120, 250, 0.3
# About the first 150 words are function words; topics are made of what lies well behind them.
_FUNCTION_WORDS, _TOPIC_RANKS = 150, 9_000
_RARE_SHARE = 0.02
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
_FRAMES = ("what did we say about", "how did I fix the", "when was", "why is the", "do you remember")

Float32 = NDArray[np.float32]


@cache
def vocabulary() -> tuple[str, ...]:
    """Some 20,000 English words, the most frequent first."""
    with tempfile.TemporaryDirectory() as home:
        files = find_model(BGE_SMALL, Path(home))
        tokens = json.loads(files.tokenizer.read_text(encoding="utf-8"))["model"]["vocab"]
    words = (word for word in sorted(tokens, key=tokens.__getitem__) if word.isalpha() and word.isascii())
    return tuple(word for word in words if len(word) > 1 or word in "ai")


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation.

    Attributes:
        texts: its messages, the user's and the assistant's in turns.
        moments: when each was said; three sittings, days apart.
    """

    name: str
    project: str
    texts: list[str]
    moments: list[datetime]


class Talks:
    """An endless row of conversations.

    Args:
        seed: the same seed gives the same conversations.
    """

    def __init__(self, seed: int = 0) -> None:
        self._chance = np.random.default_rng(seed)
        self._words = np.array(vocabulary(), dtype=object)
        weights = 1.0 / (np.arange(len(self._words)) + 2.7)
        self._zipf = np.cumsum(weights) / weights.sum()
        ranks = np.random.default_rng(12345).integers(_FUNCTION_WORDS, _TOPIC_RANKS, (_TOPICS, _TOPIC_WORDS))
        self._topics = ranks
        self._prefix = f"t{seed}"
        self._count = self._rare = 0

    def talk(self, length: int) -> Talk:
        """The next conversation, of that many messages."""
        chance, self._count = self._chance, self._count + 1
        sizes = chance.lognormal(np.log(MEAN_WORDS) - _LENGTH_SPREAD**2 / 2, _LENGTH_SPREAD, length)
        sizes = np.clip(sizes.astype(int), 2, 150)
        words = self._draw(int(sizes.sum()))
        ends = np.cumsum(sizes)
        texts = [self._sentence(words[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
        begin = _BEGIN + timedelta(minutes=int(chance.integers(0, 2 * 365 * 24 * 60)))
        sittings = np.sort(chance.integers(0, length, 2))
        moments = [
            begin + timedelta(days=3 * int(np.searchsorted(sittings, place, "right")), seconds=40 * place)
            for place in range(length)
        ]
        return Talk(f"{self._prefix}-{self._count}", f"project-{chance.integers(0, PROJECTS)}", texts, moments)

    def talks(self, messages: int) -> Iterator[Talk]:
        """Conversations of 200 to 500 messages, that many messages in all."""
        while messages > 0:
            length = min(int(self._chance.integers(200, 501)), messages)
            messages -= length
            yield self.talk(length)

    def texts(self, count: int) -> list[str]:
        """Messages out of one conversation."""
        return self.talk(count).texts

    def queries(self, texts: Sequence[str], count: int) -> list[str]:
        """Questions of two to eight words about some of the texts, half of them in a frame of function words."""
        common = set(self._words[:_FUNCTION_WORDS])
        found = []
        while len(found) < count:
            words = texts[int(self._chance.integers(0, len(texts)))].rstrip(".").split()
            content = [word for word in words if word not in common]
            if len(content) >= 4:
                start = int(self._chance.integers(0, len(content) - 3))
                picked = content[start : start + int(self._chance.integers(2, 5))]
                framed = self._chance.random() < 0.5
                frame = _FRAMES[int(self._chance.integers(0, len(_FRAMES)))] if framed else ""
                found.append(f"{frame} {' '.join(picked)}".strip())
        return found

    def _draw(self, count: int) -> list[str]:
        chance = self._chance
        ranks = np.searchsorted(self._zipf, chance.random(count))
        topical = chance.random(count) < _TOPIC_SHARE
        own = chance.integers(0, _TOPICS, 3)
        # A topic's words are Zipf-like among themselves, too.
        inside = (_TOPIC_WORDS ** chance.random(count)).astype(int) - 1
        ranks[topical] = self._topics[own[chance.integers(0, 3, count)], inside][topical]
        words: list[str] = self._words[ranks].tolist()
        for place in np.flatnonzero(chance.random(count) < _RARE_SHARE):
            self._rare += 1
            words[place] = f"{self._prefix}{words[place][:4]}{self._rare // 2}"
        return words

    def _sentence(self, words: Sequence[str]) -> str:
        return " ".join(words) + "."


def write_jsonl(path: Path, talks: Iterator[Talk]) -> int:
    """Write conversations one after the other in the product's own exchange format; how many messages."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for talk in talks:
            for place, (text, moment) in enumerate(zip(talk.texts, talk.moments, strict=True)):
                line: dict[str, Any] = {
                    "conversation": talk.name,
                    "project": talk.project,
                    "role": "assistant" if place % 2 else "user",
                    "content": text,
                    "ts": moment.isoformat(),
                }
                file.write(json.dumps(line) + "\n")
                count += 1
    return count


def clustered(centers: Float32, count: int, seed: int = 0, chunk: int = 10_000) -> Iterator[Float32]:
    """Unit vectors around the centers, about 0.8 cosine from their own one, in chunks of `(chunk, dims)`."""
    chance = np.random.default_rng(seed)
    dims = centers.shape[1]
    for start in range(0, count, chunk):
        rows = min(chunk, count - start)
        noise = chance.standard_normal((rows, dims), dtype=np.float32) * np.float32(0.75 / dims**0.5)
        matrix = centers[chance.integers(0, len(centers), rows)] + noise
        yield matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
