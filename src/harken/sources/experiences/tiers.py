"""Confidence tiers of experiences: how far each may be believed, by a rule that can give every one of them.

1. `abandoned`: it was given up; nothing was shown.
2. `gold`: its outcome was captured from a test or build that ran, not told by the agent.
3. `bronze`: it is vague: its hypothesis or its prediction says nothing that could be checked.
4. `silver`: everything else; the agent told the outcome of something definite.

A text is vague when it names nothing concrete (a number, a path, a call, a quoted or compound name) and has too few
different words that say something, fewer than three in a hypothesis, fewer than two in a prediction: stop words, hedges
and the words in which every report of work is written do not count.
"""

from __future__ import annotations

import re
from typing import Final

from harken.model.experiences import Experience, ExperienceStatus
from harken.text.words import content_terms, words_of

GOLD: Final = "gold"
SILVER: Final = "silver"
BRONZE: Final = "bronze"
ABANDONED: Final = "abandoned"
TIERS = (GOLD, SILVER, BRONZE, ABANDONED)
TIER_WEIGHTS = {GOLD: 1.0, SILVER: 0.8, BRONZE: 0.5, ABANDONED: 0.2}
"""How much each counts in a cluster's centroid; `UNKNOWN_WEIGHT` where there is none."""
UNKNOWN_WEIGHT = 0.5
HYPOTHESIS_WORDS = 3
PREDICTION_WORDS = 2
_CONCRETE = re.compile(r"\d|`|\"[^\"]+\"|\w\(|\w[/\\]\w|\w\.\w|\w_\w|\w::\w|[a-z][A-Z]|--\w")


def tier_of(one: Experience) -> str:
    """The tier of an experience; empty while it is active."""
    if one.outcome is None:
        return ""
    if one.outcome.status is ExperienceStatus.ABANDONED:
        return ABANDONED
    if one.outcome.auto_captured:
        return GOLD
    vague = is_vague(one.hypothesis, HYPOTHESIS_WORDS) or is_vague(one.prediction, PREDICTION_WORDS)
    return BRONZE if vague else SILVER


def is_vague(text: str, least_words: int) -> bool:
    """Whether a text says nothing that could be checked; the rule stands at the top of this module."""
    if _CONCRETE.search(text):
        return False
    vague = words_of("vague_words")
    said = {word for word in content_terms(text) if len(word) > 1 and word not in vague}
    return len(said) < least_words
