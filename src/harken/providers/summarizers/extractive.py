"""Summaries of the sentences that say most of what all of them say, and little twice."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import TypeVar

from harken.model.conversations import ExchangeStatus, Role, spoken
from harken.providers.embedder import Vectors
from harken.providers.priority import in_turn
from harken.providers.summarizer import EXTRACTIVE, TOOLS_AT_MOST, ExchangeText, Spoken, Summary, ToolUse
from harken.text import tokens
from harken.text.words import content_terms, split_sentences

Embed = Callable[[Sequence[str]], Vectors]

# How much being central counts against being unlike what was chosen before.
_RELEVANCE = 0.7
# The same where many are chosen, which repeat each other the sooner.
_RELEVANCE_OF_MANY = 0.5
# What comes first in a text mostly says what it is about.
_LEAD = 0.1
_FEW_TERMS = 3


def choose(
    sentences: Sequence[str], count: int, embed: Embed | None = None, max_tokens: int | None = None
) -> list[int]:
    """Indices of the sentences that stand for all, in their order.

    Each is weighed by its cosine similarity to the centroid, less that to the nearest one chosen already. By the
    vectors of an embedding model where there is one, else by those of their terms.

    Args:
        sentences: in the order of the text.
        count: how many at most.
        embed: vectors of texts, `(n, dims)` float32, unit length.
        max_tokens: of all that are chosen, each with the line break after it; None where only their number counts.
    Source: maximal marginal relevance, Carbonell and Goldstein 1998; centroids, Radev et al. 2004.
    """
    if max_tokens is None and len(sentences) <= count:
        return list(range(len(sentences)))
    terms = [content_terms(sentence) for sentence in in_turn(sentences)]
    candidates = _worth_weighing(sentences, terms, count)
    if not candidates or (max_tokens is None and len(candidates) <= count):
        return candidates
    said = [terms[index] for index in candidates]
    texts = [sentences[index] for index in candidates]
    import numpy as np

    rows = _term_rows(said) if embed is None else np.asarray(embed(texts), dtype=np.float32)
    centroid = rows.sum(axis=0)
    length = float(np.linalg.norm(centroid))
    relevance = (rows @ centroid) / length if length else np.zeros(len(texts), dtype=np.float32)
    # Towards 1 the more terms a sentence has: a short one is near a centroid for the little that it does not say.
    counts = np.array([len(set(each)) for each in said], dtype=np.float32)
    relevance = relevance * np.asarray(counts / (counts + _FEW_TERMS), dtype=np.float32)
    relevance[0] += _LEAD
    sizes = [0 if max_tokens is None else tokens.estimate(text) + 1 for text in texts]
    weight = _RELEVANCE if max_tokens is None else _RELEVANCE_OF_MANY
    chosen = _most_relevant(rows, relevance, weight, count, sizes, max_tokens or 0)
    return sorted(candidates[row] for row in chosen)


def _worth_weighing(sentences: Sequence[str], terms: Sequence[Sequence[str]], count: int) -> list[int]:
    """The first of sentences that are alike, and, where they are enough, those that say more than "Sure!"."""
    first = list({sentence: index for index, sentence in reversed(list(enumerate(sentences)))}.values())[::-1]
    full = [index for index in first if len(terms[index]) >= _FEW_TERMS]
    return full if len(full) >= count else first


def _most_relevant(
    rows: Vectors, relevance: Vectors, weight: float, count: int, sizes: Sequence[int], room: int
) -> list[int]:
    """Rows that matter and are unlike each other, the best first; one that finds no room hinders no other.

    Relevance has this weight, 0 to 1; the rest is that of being unlike what was chosen before.
    """
    import numpy as np

    chosen: list[int] = []
    redundancy = np.zeros(len(rows), dtype=np.float32)
    open_rows = np.ones(len(rows), dtype=bool)
    while len(chosen) < count and open_rows.any():
        scores = np.where(open_rows, weight * relevance - (1 - weight) * redundancy, -np.inf)
        best = int(np.argmax(scores))
        open_rows[best] = False
        if sizes[best] <= room:
            room -= sizes[best]
            chosen.append(best)
            redundancy = np.maximum(redundancy, rows @ rows[best])
    return chosen


def term_vectors(sentences: Sequence[str]) -> Vectors:
    """A row for each sentence by its words, `(n, terms)` float32, unit length or zero."""
    return _term_rows([content_terms(sentence) for sentence in sentences])


def _term_rows(said: Sequence[Sequence[str]]) -> Vectors:
    """A row for each sentence's terms: the rarer a term is among the sentences, the heavier."""
    import numpy as np

    counted = [Counter(terms) for terms in said]
    frequency = Counter(term for terms in counted for term in terms)
    columns = {term: column for column, term in enumerate(frequency)}
    rows = np.zeros((len(said), max(1, len(columns))), dtype=np.float32)
    for row, terms in zip(rows, counted, strict=True):
        for term, count in terms.items():
            row[columns[term]] = count * math.log1p(len(said) / frequency[term])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows


_CONVERSATION_SENTENCES = 3
# What a long conversation is about shows in a sample.
_MAX_CANDIDATES = 60
_TITLE_CHARS = 60
_MIN_TITLE_TERMS = 3
_TITLE_MESSAGES = 5
_CALL_TOKENS = 30
_LINE_TOKENS = 40
_TROUBLE = re.compile(r"\b(error|exception|failed|failure|fatal|denied|not found|traceback)\b", re.IGNORECASE)
_STEP = " → "
_Item = TypeVar("_Item")
# Its speaker, where one is known, and its words.
_Sentence = tuple[str | None, str]


class ExtractiveSummarizer:
    """Chooses sentences by their terms, which costs nothing."""

    name = EXTRACTIVE

    def exchange(self, exchange: ExchangeText) -> Summary:
        """The sentence that asks, the sentence that answers, and how it ended where it did not end well."""
        asked = _best([said for said in exchange.spoken if said.role is Role.USER])
        answers = [said for said in exchange.spoken if said.role is Role.ASSISTANT and said.text.strip()]
        # What an agent says before its last message is mostly what it is going to do.
        answered = _best(answers[-1:])
        steps = [asked, "" if answered else _tools_used(exchange.tools), answered, _ending(exchange)]
        return Summary(_STEP.join(step for step in steps if step))

    def conversation(self, exchanges: Sequence[ExchangeText]) -> Summary:
        """The three sentences that stand for all, and a title: what was asked for first."""
        told = [_told(exchange.spoken) for exchange in exchanges]
        said = [
            [(None, each.summary)] if each.summary else sentences
            for each, sentences in zip(exchanges, told, strict=True)
        ]
        return Summary(_standing_for(said), _title(exchanges, told))

    def segment(self, exchanges: Sequence[ExchangeText]) -> Summary:
        """The three sentences that stand for all."""
        said = [[(None, each.summary)] if each.summary else _told(each.spoken) for each in exchanges]
        return Summary(_standing_for(said))

    def tools(self, uses: Sequence[ToolUse]) -> list[Summary]:
        """Each call, and the line of its result that tells most."""
        if len(uses) > TOOLS_AT_MOST:
            raise ValueError(f"{len(uses)} tool calls at once, {TOOLS_AT_MOST} at most")
        calls = (f"{use.name}({tokens.clip_middle(' '.join(use.call.split()), _CALL_TOKENS)})" for use in uses)
        outcomes = (_outcome(use.result) for use in uses)
        return [Summary(_STEP.join(filter(None, parts))) for parts in zip(calls, outcomes, strict=True)]


def _standing_for(said: Sequence[Sequence[_Sentence]]) -> str:
    chosen = _chosen([sentence for each in said for sentence in each], _CONVERSATION_SENTENCES)
    return " ".join(
        sentence if re.search(r"[.!?:…。！？][\"'”’»)\]」』）]*$", sentence) else f"{sentence}." for sentence in chosen
    )


def _best(said: Sequence[Spoken]) -> str:
    return "".join(_chosen(_told(said), 1))


def _chosen(sentences: Sequence[_Sentence], count: int) -> list[str]:
    """The sentences that stand for all, each with its speaker where one is known."""
    sampled = _sampled(sentences)
    # Weighed without the speakers, whose names would be what all sentences have in common.
    places = choose([sentence for _, sentence in sampled], count)
    return [spoken(*sampled[place]) for place in places]


def _told(said: Sequence[Spoken]) -> list[_Sentence]:
    return [(each.author, sentence) for each in in_turn(said) for sentence in split_sentences(each.text)]


def _sampled(items: Sequence[_Item]) -> Sequence[_Item]:
    """Not more than can be weighed, evenly from beginning to end."""
    count = len(items)
    if count <= _MAX_CANDIDATES:
        return items
    return [items[index * (count - 1) // (_MAX_CANDIDATES - 1)] for index in range(_MAX_CANDIDATES)]


def _title(exchanges: Sequence[ExchangeText], told: Sequence[Sequence[_Sentence]]) -> str:
    """The first sentence of a person that says something of which more is said, cut short."""
    asked = [said for exchange in exchanges for said in exchange.spoken if said.role is Role.USER]
    sentences = [sentence for _, sentence in _told(asked[:_TITLE_MESSAGES])]
    terms = [set(content_terms(sentence)) for sentence in sentences]
    full = [place for place, found in enumerate(terms) if len(found) >= _MIN_TITLE_TERMS]
    # Read as far as is needed: the answer mostly takes a question up.
    terms_of = cache(lambda sentence: frozenset(content_terms(sentence)))
    everything = [sentence for each in told for _, sentence in each]
    recurring = (place for place in full if _recurs(terms[place], map(terms_of, everything)))
    best = next(chain(recurring, full, range(len(sentences))), None)
    return "" if best is None else _short(sentences[best])


def _recurs(terms: set[str], said: Iterable[Collection[str]]) -> bool:
    """True where one of the terms stands in two of the sentences."""
    seen: set[str] = set()
    for sentence in said:
        mentioned = terms.intersection(sentence)
        if not seen.isdisjoint(mentioned):
            return True
        seen |= mentioned
    return False


def _short(sentence: str) -> str:
    bare = sentence.rstrip(".。!！ ")
    if len(bare) <= _TITLE_CHARS:
        return bare
    head = bare[: _TITLE_CHARS - 1]
    return (head.rsplit(" ", 1)[0] if " " in head[_TITLE_CHARS // 2 :] else head).rstrip(",;:—- ") + "…"


def _ending(exchange: ExchangeText) -> str:
    if exchange.status is not ExchangeStatus.FAILED:
        return ""
    return tokens.clip(f"failed: {' '.join(exchange.error.split())}" if exchange.error else "failed", _LINE_TOKENS)


def _tools_used(uses: Sequence[ToolUse]) -> str:
    counted = Counter(use.name for use in uses)
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counted.most_common())


def _outcome(result: str) -> str:
    """The last line that tells of trouble, else the last line: where commands say how they ended."""
    lines = [line.strip() for line in tokens.clip_middle(result, 2000, "\n").splitlines() if line.strip()]
    trouble = [line for line in lines if _TROUBLE.search(line)]
    return tokens.clip((trouble or lines or [""])[-1], _LINE_TOKENS)
