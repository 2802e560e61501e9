"""The one gate: how near an entry must be to come back, and what its rare words make up for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harken.config.sections import SearchConfig
from harken.search.query import Query, distinctive_terms
from harken.search.session import QueryVector
from harken.storage.ports import Holding, RowScope, Transaction
from harken.text.kinds import WORLD

# A word that more than this share of a scope's entries has, or more than so many, is no rare one.
_COMMON_SHARE, _COMMON_FLOOR = 0.1, 10
_MOST_TERMS = 12
# Who has the query's rare words may be so much less similar than the model's own calibration asks; a threshold that
# somebody has set is kept to the letter. "We decided to deploy on Fridays" lies at 0.53 from "what did we decide about
# the deploy?", where 0.60 is asked of texts that merely resemble.
_LEEWAY = 0.08
# What a query asks of in words that nobody has said is less likely to have been talked about: so much more similarity
# is asked for where none of its telling words was said, in proportion where some were.
_FOR_UNSAID = 0.06
# What the world answers ("how is paper made?") is as near to what was said of such things as real questions are to
# their answers. So much of the log-odds that a query is of that kind, by the first model and by the second one, is
# asked for beside the threshold, up to a most (ADR 32).
_FOR_GENERAL, _FOR_GENERAL_ABROAD, _MOST_FOR_GENERAL = 0.1, 0.06, 0.2
# From so much on what has no vector must have all of its rare words.
_SURELY_GENERAL = 0.05
# With one rare word alone, where nobody has said the others, a text may only be so much less similar; else one makes up
# for nothing. "painted" brought sunsets back for "Who painted The Night Watch?".
_FOR_ONE_WORD = 0.04
# What is of another project must be so much nearer (docs/adr/0025-projects.md).
_OTHER_MARGIN = 0.1
# What shares an exchange with a message that is near enough (evidence in context on LoCoMo's conv-26 at 2,000 tokens:
# 0.70 with, 0.68 without, at no more tokens).
_PARTNER_LEEWAY = 0.2


@dataclass(frozen=True, slots=True)
class Gate:
    """Decides which entries are near enough to a query. All of it is cosine similarity, -1 to 1.

    Attributes:
        threshold: near enough; None where nothing could be compared.
        margin: how much nearer what is not to be trusted must be.
        leeway: how much less will do for one with the query's words and enough of its rare ones.
        raised: how much nearer than the threshold is asked for; below 0 how much less will do, if it is to be trusted.
        own: the model's threshold, whatever is set.
        general: how much nearer than that, for the query is one that the world answers.
    """

    threshold: float | None
    margin: float = 0.0
    leeway: float = 0.0
    raised: float = 0.0
    own: float | None = None
    general: float = 0.0

    @classmethod
    def of(cls, asked: QueryVector | None, configured: float | None, config: SearchConfig) -> Gate:
        """The gate with the model's own threshold, or, without leeway, with the one that somebody has set."""
        if asked is None:
            return cls(None, config.untrusted_margin)
        if configured is not None:
            return cls(configured, config.untrusted_margin, own=asked.space.threshold)
        return cls(asked.space.threshold, config.untrusted_margin, _LEEWAY, own=asked.space.threshold)

    def bar(self, is_untrusted: bool) -> float:
        """The similarity that is asked for; -1 where nothing could be compared."""
        if self.threshold is None:
            return -1.0
        least = self.threshold + self.general
        return least + max(0.0, self.raised) + self.margin if is_untrusted else least + self.raised

    def of_others(self) -> Gate:
        """The gate for what is of another project: nearer by a margin, and no word makes up for it.

        A threshold below 0, by which likeness only orders, is none for them: the model's own stands in its place.
        """
        threshold = self.own if self.threshold is not None and self.threshold < 0 else self.threshold
        return replace(self, threshold=threshold, leeway=0.0, raised=max(0.0, self.raised) + _OTHER_MARGIN)

    @property
    def partner_bar(self) -> float | None:
        """The similarity asked of what shares an exchange with one that passed; None where that is no reason."""
        return self.threshold - _PARTNER_LEEWAY if self.leeway and self.threshold is not None else None

    def within_reach(self, entry_ids: Iterable[int], similarity: Mapping[int, float]) -> list[int]:
        """Those that it may admit: to ask of each of some hundred takes a millisecond, and most are far below."""
        if self.threshold is None:
            return list(entry_ids)
        lowest = self.threshold + self.general + min(self.raised, self.raised / 2) - self.leeway
        return [entry_id for entry_id in entry_ids if similarity.get(entry_id, lowest) >= lowest]

    def admits(self, similarity: float | None, is_untrusted: bool, has_words: bool = False) -> bool | None:
        """Whether an entry is near enough; None where its rare words decide: it has no vector, or is nearly near.

        It `has_words` where the full text found it.
        """
        if similarity is None or self.threshold is None:
            return None
        if similarity >= self.bar(is_untrusted):
            return True
        # Where words of the query were never said, those that were make up for less.
        least = self.threshold + self.general + min(self.raised, self.raised / 2)
        is_nearly_near = similarity >= least - self.leeway
        return None if is_nearly_near and has_words and not is_untrusted else False


@dataclass(frozen=True, slots=True)
class RareWords:
    """The words that say what a query is about, and are rare in a scope; where every word is common, all of them.

    Attributes:
        holders: each with the entries that have it in their own text; what nobody has said is the rarest of all.
        unsaid: the share of the query's telling words that nobody has said, 0 to 1.
    """

    holders: Mapping[str, frozenset[int]]
    unsaid: float = 0.0

    @classmethod
    def read(cls, tx: Transaction, query: Query, scope: RowScope, held: Holding | None = None) -> RareWords:
        """The query's rare words among a scope's entries; of who holds which word, `held` may be known."""
        terms = cls.terms_of(query)
        if held is not None and held.ids.keys() >= set(terms):
            holding = Holding({term: held.ids[term] for term in terms}, held.inside or held.entries)
        else:
            holding = tx.text.holders(tx.connection, terms, scope, _COMMON_FLOOR)
        common = max(_COMMON_FLOOR, int(holding.entries * _COMMON_SHARE))
        of = holding.of
        rare = {term: held for term, held in of.items() if len(held) <= common} or of
        return cls(rare, sum(not held for held in of.values()) / max(1, len(of)))

    @staticmethod
    def terms_of(query: Query) -> Sequence[str]:
        """The words that may be rare."""
        return distinctive_terms(query.terms)[:_MOST_TERMS]

    @property
    def said(self) -> int:
        """How many of them anybody has said."""
        return sum(1 for holders in self.holders.values() if holders)

    def held_by(self, entry_id: int) -> list[str]:
        """Those that an entry has."""
        return [term for term, holders in self.holders.items() if entry_id in holders]

    def raise_for_unsaid(self, gate: Gate) -> Gate:
        """The gate for a query with words that nobody has said; a bar that somebody has set is kept to the letter."""
        return replace(gate, raised=_FOR_UNSAID * self.unsaid if gate.leeway else 0.0)

    def make_up(
        self, entry_id: int, similarity: float | None, gate: Gate, is_untrusted: bool, is_elsewhere: bool
    ) -> bool:
        """Whether those that an entry has make up for what it lacks in similarity, or for having no vector.

        `is_elsewhere` tells an entry of another language than the query's, which could not have them all.
        """
        is_alone = len(self.held_by(entry_id)) == 1 and not is_elsewhere and gate.threshold is not None
        if is_alone and (self.said > 1 or (similarity or 1.0) < (gate.threshold or 0.0) - _FOR_ONE_WORD):
            return False
        needs_all = is_untrusted or (similarity is None and gate.general > _SURELY_GENERAL)
        return self.admit(entry_id, similarity is not None, needs_all)

    def admit(self, entry_id: int, is_near: bool, needs_all: bool) -> bool:
        """Whether an entry has half of them, or, nearly near enough, two that are half of those that anybody has said.

        Or, where it `needs_all`, whether it has all of them: what is not to be trusted must.
        """
        held = len(self.held_by(entry_id))
        if needs_all:
            return 0 < held == len(self.holders)
        return held > 0 and (2 * held >= len(self.holders) or (is_near and held > 1 and 2 * held >= self.said))


def is_talk(asked: QueryVector, gate: Gate) -> bool:
    """Whether a query asks for nothing that was said; of one in English never by a bar that somebody set."""
    return asked.is_talk and (bool(gate.leeway) or not asked.is_english)


def for_general(asked: QueryVector, gate: Gate) -> Gate:
    """The gate for a query that the world may answer; a bar that somebody set stays as it is."""
    if not gate.leeway:
        return gate
    share = _FOR_GENERAL if asked.is_english else _FOR_GENERAL_ABROAD
    return replace(gate, general=min(_MOST_FOR_GENERAL, share * max(0.0, asked.leaning_to(WORLD))))
