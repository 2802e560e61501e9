"""Learned fusion: the order of a search's best candidates, by a linear model of what words, meaning and place say.

Each feature is standardized over the candidates, so that a weight holds for short talk and for long answers alike;
there are two vectors of weights, and how long the candidates are says how much of each counts (ADR 20). A score says
who comes first, never whether somebody comes back: that is the gate's matter.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib import resources
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from harken.model.conversations import Reason
from harken.search.query import Query
from harken.storage.facts import EntryFacts, Neighbours
from harken.storage.ports import Holding
from harken.text.traits import unpack
from harken.text.words import MONTHS, WORD, days_in_words

# So many of the best are ordered anew; the others stay behind them as they are.
REORDERED = 100
_MOST_DEVIATIONS = 3.0
# Of BM25: how soon a word has said all it can, and what length counts.
_SATURATION, _LENGTH_SHARE = 1.2, 0.4
_LEAST_RARITY = 0.01
# A word that more entries have says too little to be worth listing them all.
MOST_HOLDERS = 5_000
_BESIDE = 1e-6

Floats = NDArray[np.float64]

# What each feature says of a candidate that has more of it than the others, and of one that has less, in words for
# people. In the order of the weights.
FEATURES: Mapping[str, tuple[str, str]] = {
    "fused": ("words and meaning together say so", "words and meaning together say less"),
    "words": (
        "has the query's words, or stands beside them",
        "has fewer of the query's words, and so has what is beside it",
    ),
    "own_words": ("has the query's words itself", "has fewer of the query's words itself"),
    "meaning": ("near in meaning", "less near in meaning"),
    "speaker": ("said by the one who is asked about", "said by somebody else than is asked about"),
    "follows_question": ("follows a question", "follows no question"),
    "ends_asking": ("is a question", "is no question"),
    "asking": ("asks in many of its sentences", "asks in few of its sentences"),
    "tokens": ("longer than the others", "shorter than the others"),
    "names": ("names more", "names less"),
    "dated": ("says when", "does not say when"),
    "when_dated": ("says when, as is asked", "does not say when, as is asked"),
    "who_named": ("names somebody, as is asked", "names nobody, as is asked"),
    "many_counted": ("has a number, as is asked", "has no number, as is asked"),
    "day": ("of the time that is asked about", "of another time than is asked about"),
    "coverage": ("has more of what is asked for", "has less of what is asked for"),
    "coverage_around": (
        "with what comes before it, has more of what is asked for",
        "even with what comes before it, has less",
    ),
    "meaning_after": ("what follows is near in meaning", "what follows is less near in meaning"),
    "fused_before": ("what comes before it matches", "what comes before it matches less"),
    "greets": ("begins with a greeting", "begins with no greeting"),
    "telling": ("has many words that say something", "has few words that say something"),
    "rule_first": ("states the rule that is nearest in meaning", "states no rule, or not the nearest"),
}


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """Weights by feature.

    Attributes:
        short: for talk of short turns, `(features,)` float64; `long` for long ones.
        middle: the mean ln(1 + tokens) of candidates where both count alike.
        steepness: how soon one of them counts alone.
    """

    short: Floats
    long: Floats
    middle: float
    steepness: float


@cache
def fusion_weights() -> FusionWeights:
    """The weights of `search/data/fusion.json`, which `benchmarks/train_fusion.py` makes."""
    kept = json.loads(resources.files(__package__).joinpath("data/fusion.json").read_text("utf-8"))
    short, long = (np.array([kept[style][name] for name in FEATURES]) for style in ("short", "long"))
    return FusionWeights(short, long, kept["middle"], kept["steepness"])


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of candidates beside each one's facts.

    Attributes:
        fused: words and meaning together, 0 to 1; likewise `keyword`, the full-text scores.
        similarity: cosine similarity, also of neighbours.
        speakers: 1.0 of those whom the query names as the speaker, -1.0 of others where it names one.
        held: who has which of the query's words.
        around: the turns beside each.
    """

    query: Query
    facts: Mapping[int, EntryFacts]
    fused: Mapping[int, float]
    keyword: Mapping[int, float]
    similarity: Mapping[int, float]
    speakers: Mapping[int, float]
    held: Holding
    around: Mapping[int, Neighbours]


def features_of(known: Evidence, entry_ids: Sequence[int]) -> tuple[Floats, Floats]:
    """The features of candidates, `(candidates, features)` float64, as they are; and ln(1 + tokens) of each."""
    facts = [known.facts[entry_id] for entry_id in entry_ids]
    around = [known.around.get(entry_id, _ALONE) for entry_id in entry_ids]
    traits = unpack([each.traits for each in facts])
    before = [beside.before for beside in around]
    cues, rarity = _Cues.of(known.query), _rarities(known.held)
    holds = _holds(known.held, [*entry_ids, *before])
    mine, earlier = holds[: len(facts)], holds[len(facts) :]
    total = max(float(rarity.sum()), _LEAST_RARITY)
    meaning, least = _scaled(known.similarity, entry_ids)
    columns = {
        "fused": _looked_up(known.fused, entry_ids, 0.0),
        "words": _scaled(known.keyword, entry_ids)[0],
        "own_words": _bm25(mine @ rarity, traits.tokens),
        "meaning": meaning,
        "speaker": _looked_up(known.speakers, entry_ids, 0.0),
        "follows_question": np.array([beside.follows_question for beside in around], dtype=np.float64),
        "ends_asking": traits.ends_asking,
        "asking": traits.asking,
        "tokens": traits.tokens,
        "names": traits.names,
        "dated": traits.dated,
        "when_dated": traits.dated * cues.when,
        "who_named": traits.names * cues.who,
        "many_counted": traits.counts * cues.many,
        "day": np.array(list(map(cues.day_match, facts)) if cues.months else [0.0] * len(facts)),
        "coverage": mine @ rarity / total,
        "coverage_around": np.maximum(mine, earlier) @ rarity / total,
        "meaning_after": _looked_up(known.similarity, [beside.after for beside in around], least),
        "fused_before": _looked_up(known.fused, before, 0.0),
        "greets": traits.greets,
        "telling": traits.telling,
        "rule_first": _first_of(traits.rules, meaning),
    }
    return np.array([columns[name] for name in FEATURES]).T, traits.tokens


def standardized(features: Floats) -> Floats:
    """Each feature as its distance from the candidates' mean in standard deviations, at most 3 either way."""
    scaled = features - features.mean(axis=0)
    deviation = np.sqrt((scaled * scaled).mean(axis=0))
    scaled /= np.where(deviation > 1e-9, deviation, 1.0)
    clipped: Floats = np.minimum(np.maximum(scaled, -_MOST_DEVIATIONS), _MOST_DEVIATIONS)
    return clipped


def weights_for(lengths: Floats, weights: FusionWeights) -> Floats:
    """The weights for candidates of these ln(1 + tokens), `(features,)` float64."""
    short = 1.0 / (1.0 + math.exp(weights.steepness * (float(lengths.mean()) - weights.middle)))
    return short * weights.short + (1.0 - short) * weights.long


def learned_scores(known: Evidence, entry_ids: Sequence[int]) -> Learned:
    """Score candidates."""
    if not entry_ids:
        return NOTHING_LEARNED
    features, lengths = features_of(known, entry_ids)
    places = standardized(features)
    shares = places * weights_for(lengths, fusion_weights())
    scores = 1.0 / (1.0 + np.exp(-shares.sum(axis=1)))
    return Learned(dict(zip(entry_ids, scores.tolist(), strict=True)), shares, places)


def placed(scores: Mapping[int, float], fused: Mapping[int, float], others: Sequence[int]) -> dict[int, float]:
    """Scores of others that put each where words and meaning have it among those that are scored."""
    if not scores or not others:
        return {}
    before, after = sorted(fused[entry_id] for entry_id in scores), sorted(scores.values())
    # Of those that stand beyond all, or at one place, the order stays as well.
    return {
        entry_id: float(np.interp(fused[entry_id], before, after)) + _BESIDE * fused[entry_id] for entry_id in others
    }


@dataclass(frozen=True, slots=True)
class Learned:
    """What learned fusion makes of candidates.

    Attributes:
        scores: what each scores, 0 to 1.
        shares: what each feature adds, `(candidates, features)` float64, in the order of the scores.
        places: where each stands among the others by each feature, likewise, in standard deviations.
    """

    scores: dict[int, float]
    shares: Floats
    places: Floats

    def reasons(self, entry_id: int, most: int = 4) -> list[Reason]:
        """The features that say most of a candidate, first what says the most; of one without a score, none."""
        if entry_id not in self.scores:
            return []
        row = list(self.scores).index(entry_id)
        shares, best = self.shares[row], np.argsort(-np.abs(self.shares[row]), kind="stable")[:most].tolist()
        told = [(_TOLD[index], float(shares[index]), self.places[row, index] > 0) for index in best if shares[index]]
        return [
            Reason(name, share, more if above else less, is_added=True) for (name, (more, less)), share, above in told
        ]


NOTHING_LEARNED = Learned({}, np.empty((0, len(FEATURES))), np.empty((0, len(FEATURES))))
_TOLD = tuple(FEATURES.items())
_ALONE = Neighbours()
_WHEN = re.compile(
    r"\bwhen\b|\bwhat (?:date|day|month|year|time)\b|\bhow long\b|\bwann\b|\bcuándo\b|\bquand\b|\bкогда\b"
)
_WHO = re.compile(r"\b(?:who|whom|whose|where|which|wer|wem|wen|wo|qui|où|quién|dónde|кто|кому|где)\b")
_MANY = re.compile(
    r"\bhow (?:many|much|often|old|long)\b|\bwie (?:viele?|oft|lange)\b|\bcombien\b|\bcuántos?\b|\bсколько\b"
)
_DAY_OF_MONTH = re.compile(r"(?<![\w.:/])(\d{1,2})(?:st|nd|rd|th)?(?![\w:/]|\.\d)")
# "Which port may we use?" names no month, "in may" does.
_NO_MONTH = re.compile(r"(?<!\d )(?<!\b(?:in|of|by) )(?<!\b(?:last|this|next) )\b(?:may|march|(?<!.)May)\b(?! \d)")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


@dataclass(frozen=True, slots=True)
class _Cues:
    """What kind of answer a query asks for."""

    when: bool
    who: bool
    many: bool
    months: frozenset[int]
    days: frozenset[int]
    years: frozenset[int]

    @classmethod
    def of(cls, query: Query) -> _Cues:
        said = days_in_words(query.text)
        text, words = said.lower(), set(WORD.findall(_NO_MONTH.sub("", said).lower()))
        months = frozenset(number for number, name in enumerate(MONTHS, start=1) if name.lower() in words)
        days = frozenset(int(day) for day in _DAY_OF_MONTH.findall(text) if int(day) <= 31) if months else frozenset()
        years = frozenset(map(int, _YEAR.findall(text)))
        when, who, many = (pattern.search(text) is not None for pattern in (_WHEN, _WHO, _MANY))
        return cls(when, who, many, months, days, years)

    def day_match(self, facts: EntryFacts) -> float:
        """1 for the month that is named, 2 for about the day; 0 for another, or another year."""
        moment = facts.created_at.astimezone()
        about = [moment + timedelta(days=more) for more in (0, -1, 1)]
        named = [each for each in about if each.month in self.months and (not self.years or each.year in self.years)]
        return 2.0 if any(each.day in self.days for each in named) else float(moment in named)


def _rarities(held: Holding) -> Floats:
    """How rare each of the query's words is among the entries, `(words,)` float64."""
    holders = np.array([len(ids) for ids in held.ids.values()], dtype=np.float64)
    rarities: Floats = np.maximum(_LEAST_RARITY, np.log((held.entries + 0.5) / (holders + 0.5)))
    return rarities


def _holds(held: Holding, entry_ids: Sequence[int]) -> Floats:
    """Whether each entry has each of the words, `(entries, words)` float64 of 0 and 1."""
    wanted, has = np.array(entry_ids, dtype=np.int64), np.zeros((len(entry_ids), len(held.ids)))
    for column, ids in enumerate(held.ids.values()):
        if len(ids):
            has[:, column] = ids.take(ids.searchsorted(wanted), mode="clip") == wanted
    return has


def _bm25(amounts: Floats, lengths: Floats) -> Floats:
    """BM25 over the entries' own words, as if each held a word once; the lengths are ln(1 + tokens)."""
    tokens = np.expm1(lengths)
    norms = 1.0 - _LENGTH_SHARE + _LENGTH_SHARE * tokens / max(1.0, float(tokens.mean()))
    scores: Floats = amounts * (_SATURATION + 1.0) / (1.0 + _SATURATION * norms)
    return scores


def _scaled(scores: Mapping[int, float], entry_ids: Sequence[int]) -> tuple[Floats, float]:
    """Scores brought to 0..1 over all that have one, and the lowest; who has none has the lowest."""
    low, high = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    if high <= low:
        return np.ones(len(entry_ids)), low
    return (_looked_up(scores, entry_ids, low) - low) / (high - low), low


def _looked_up(scores: Mapping[int, float], entry_ids: Sequence[int], absent: float) -> Floats:
    """The score of each, `(entries,)` float64; in one sweep, for one by one takes three times as long."""
    return np.fromiter(map(scores.get, entry_ids, repeat(absent)), dtype=np.float64, count=len(entry_ids))


def _first_of(members: Floats, scores: Floats) -> Floats:
    """1 for the member with the highest score, 1/2 for the next and so on; 0 for who is none."""
    order = np.argsort(np.argsort(-np.where(members > 0, scores, -1.0), kind="stable"), kind="stable")
    first: Floats = members / (order + 1.0)
    return first
