"""Questions made of a history by rules, each with the messages that answer it; and prompts that nothing answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property
from importlib import resources
from itertools import chain, combinations, islice, zip_longest

import numpy as np

from harken.model.conversations import Entry, Role
from harken.providers.summarizer import EXTRACTIVE
from harken.search.query import is_bare_question, is_small_talk, parse_query, share_held
from harken.storage.enrichment.summaries import EXCHANGE, read_summaries
from harken.storage.entries import load_entries
from harken.storage.past import PlacedTurn, list_turns
from harken.storage.ports import MESSAGE_SOURCE, NearestIndex, RowScope, StoredSpace, Transaction, batches
from harken.storage.tables import to_microseconds
from harken.storage.vectors import answering_space, read_vectors
from harken.text.words import content_terms, passing_words, split_sentences, word_lists

ASKED_AGAIN, ANSWERED, KNOWN, RETOLD = "asked again", "answered", "known item", "retold"
QUOTED, SAVED = "quoted", "saved"
SMALL_TALK, NEW, OFF_TOPIC = "small talk", "new matter", "off topic"
_SAID = RowScope(sources=(MESSAGE_SOURCE,))
# A longer one does more than ask, or is about more than one of its sentences.
_MOST_CHARS = 500
_LEAST_TERMS, _MOST_TERMS = 3, 12
# Of what is quoted, so much of its words must stand in the message that it quotes; of a new matter, nobody
# may have said so much.
_QUOTED_SHARE, _UNSAID_SHARE, _ALIKE_SHARE = 0.6, 0.5, 0.5
# So many turns apart, one does not stand among the other's neighbours, whose words search counts as its own.
_APART = 6
# A word that says what is meant is held by so few: of all, or of a small history.
_RARE_SHARE, _RARE_FLOOR, _LEAST_RARE = 0.01, 10, 2
# So many messages are looked at for each kind, in parts.
_TRIED, _AT_ONCE = 3000, 200
_CHOSEN_AMONG = 5
_SMALL_TALK_CHARS = 80
_HISTORY_BEFORE = 50


@dataclass(frozen=True, slots=True)
class MinedQuestion:
    """A prompt as it is asked of the memory.

    Attributes:
        gold: ids of the messages of which any answers it; none where nothing does.
        exchanges: those that they are of.
        conversation: where it is asked; None where that is outside of all.
        asked_at: nothing that was said then or later may come back; None is now.
        is_elsewhere: whether another conversation is to answer it by itself, as past conversations do.
    """

    kind: str
    text: str
    gold: frozenset[str] = frozenset()
    exchanges: frozenset[str] = frozenset()
    conversation: str | None = None
    asked_at: datetime | None = None
    is_elsewhere: bool = True

    @property
    def until(self) -> int | None:
        """The moment as a scope of rows has it."""
        return None if self.asked_at is None else to_microseconds(self.asked_at)


@cache
def lines_of(name: str) -> tuple[str, ...]:
    """The lines of `bench/data/{name}.txt` that are no comments."""
    text = resources.files(__package__).joinpath(f"data/{name}.txt").read_text("utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


@dataclass
class Miner:
    """Makes questions of what a store holds; the same ones as long as it holds the same and the seed stays.

    Args:
        tx: a view that nothing is written in.
        index: of the nearest vectors.
        seed: of what is chosen.
    """

    tx: Transaction
    index: NearestIndex
    seed: int = 0
    _chance: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._chance = np.random.default_rng(self.seed)

    @cached_property
    def turns(self) -> Sequence[PlacedTurn]:
        """Whatever people and agents said, conversation by conversation."""
        return list_turns(self.tx)

    def questions(self, limit: int) -> list[MinedQuestion]:
        """At most so many: of each kind a share, and known items for the rest."""
        answered, made = self._answered(), list[MinedQuestion]()
        for found, share in ((self._saved(), 8), (self._quoted(), 8), (self._asked_again(), 4), (answered, 4)):
            made += islice(found, limit // share)
        made += islice(self._known(), limit - len(made))
        return self._mixed([*made, *islice(answered, limit - len(made))])

    def unanswered(self, limit: int) -> list[MinedQuestion]:
        """Prompts for which nothing should come back, at most so many of each kind."""
        kinds = (self._small_talk(), self._new_matters(), self._off_topic())
        return self._mixed([each for kind in kinds for each in islice(kind, limit)])

    @cached_property
    def _space(self) -> StoredSpace | None:
        return answering_space(self.tx)

    @cached_property
    def _places(self) -> Mapping[int, int]:
        return {turn.entry_id: place for place, turn in enumerate(self.turns)}

    @cached_property
    def _answers(self) -> Mapping[int, Sequence[PlacedTurn]]:
        """What an agent said, by exchange."""
        found: dict[int, list[PlacedTurn]] = {}
        for turn in self.turns:
            if turn.exchange_id is not None and turn.role == Role.ASSISTANT:
                found.setdefault(turn.exchange_id, []).append(turn)
        return found

    def _mixed(self, given: Sequence[MinedQuestion]) -> list[MinedQuestion]:
        """In an order by chance, so that whoever stops early has some of each."""
        return [given[place] for place in self._chance.permutation(len(given))]

    def _spread(self, turns: Sequence[PlacedTurn]) -> Iterator[PlacedTurn]:
        """One of each conversation after the other, from any time of it."""
        of_each: dict[int | None, list[PlacedTurn]] = {}
        for place in self._chance.permutation(len(turns)):
            of_each.setdefault(turns[place].conversation_id, []).append(turns[place])
        for row in zip_longest(*of_each.values()):
            yield from filter(None, row)

    def _texts(self, turns: Iterator[PlacedTurn]) -> Iterator[tuple[PlacedTurn, Entry]]:
        for batch in batches(islice(turns, _TRIED), _AT_ONCE):
            known = load_entries(self.tx, [turn.entry_id for turn in batch])
            yield from ((turn, known[turn.entry_id]) for turn in batch if turn.entry_id in known)

    def _short(self, most_chars: int = _MOST_CHARS, role: Role | None = None) -> Iterator[tuple[PlacedTurn, Entry]]:
        wanted = [turn for turn in self.turns if turn.chars <= most_chars and role in (None, turn.role)]
        return self._texts(self._spread(wanted))

    def _prompts(self, most_chars: int = _MOST_CHARS) -> Iterator[tuple[PlacedTurn, Entry]]:
        return self._short(most_chars, Role.USER)

    def _asked_again(self) -> Iterator[MinedQuestion]:
        """Questions that resemble an earlier one: what that one was answered is looked for."""
        space = self._space
        if space is None:
            return
        # As near as half of the way from what is near enough to the prompt itself.
        bar, seen = (1.0 + space.threshold) / 2, set[int]()
        for batch in batches(self._prompts(), _AT_ONCE):
            asking = {turn.entry_id: (turn, entry) for turn, entry in batch if asks(entry.text)}
            for entry_id, vector in zip(*read_vectors(self.tx, space, list(asking)), strict=True):
                turn, entry = asking[int(entry_id)]
                scope = RowScope(_SAID.sources, roles=(Role.USER,), until=to_microseconds(turn.created_at))
                near = self.index.nearest(self.tx, space, vector, scope, 5)
                alike = [each for each, similarity in near.items() if similarity >= bar and each not in seen]
                made = self._answered_before(turn, entry, alike)
                if made is not None:
                    seen.add(turn.entry_id)
                    yield made

    def _answered_before(self, turn: PlacedTurn, entry: Entry, alike: Sequence[int]) -> MinedQuestion | None:
        terms = telling_terms(entry.text)
        known = load_entries(self.tx, alike)
        gold: list[PlacedTurn] = []
        for each in (known[entry_id] for entry_id in alike if entry_id in known):
            asked = self.turns[self._places[each.id]] if each.id in self._places else turn
            if asked.exchange_id in (None, turn.exchange_id) or not asks(each.text):
                continue
            if not self._is_apart(each.id, turn):
                continue
            said = telling_terms(each.text)
            if min(share_held(terms, said), share_held(said, terms)) < _ALIKE_SHARE:
                continue
            if len(self._rare([term for term in terms if share_held([term], said)])) < _LEAST_RARE:
                continue
            gold += self._answers.get(asked.exchange_id or 0, ())[-1:]
        answers = self._saying(gold)
        return _question(ASKED_AGAIN, entry.text, answers, entry) if answers else None

    def _is_apart(self, entry_id: int, turn: PlacedTurn) -> bool:
        """Whether an entry is of another conversation, or far enough away."""
        place = self._places.get(entry_id)
        if place is None or self.turns[place].conversation_id != turn.conversation_id:
            return True
        return abs(self._places[turn.entry_id] - place) >= _APART

    def _answered(self) -> Iterator[MinedQuestion]:
        """Questions as they were asked once, as if they were asked now: the answer is looked for, not they."""
        for turn, entry in self._short():
            answers = self._answers.get(turn.exchange_id or 0, ())[-1:]
            if turn.role != Role.USER:
                place = self._places[turn.entry_id] + 1
                answers = [each for each in self.turns[place : place + 1] if each.role == Role.USER]
            asked = next((each for each in reversed(split_sentences(entry.text)) if asks(each)), "")
            is_same = all(each.conversation_id == turn.conversation_id for each in answers)
            if is_same and len(self._rare(telling_terms(asked))) >= _LEAST_RARE:
                gold = self._saying(answers)
                if gold:
                    # It would come back by itself for the question's own words, which stand in it.
                    yield replace(_question(ANSWERED, asked, gold), is_elsewhere=False)

    def _saying(self, turns: Sequence[PlacedTurn]) -> list[Entry]:
        """Those that tell something rather than ask."""
        said = load_entries(self.tx, [turn.entry_id for turn in turns]).values()
        return [e for e in said if not is_bare_question(e.text) and len(telling_terms(e.text)) >= _LEAST_TERMS]

    def _rare(self, terms: Sequence[str]) -> dict[str, frozenset[int]]:
        """Those of some words that few messages have, each with these messages."""
        most = max(_RARE_FLOOR, int(_RARE_SHARE * len(self.turns)))
        holding = self.tx.text.holders(self.tx.connection, terms[:_MOST_TERMS], _SAID).of if terms else {}
        return {term: holders for term, holders in holding.items() if len(holders) <= most}

    def _known(self) -> Iterator[MinedQuestion]:
        """Something that stands in one message: as its exchange's summary tells it, else some of its words."""
        # What an agent says while it works is seldom asked for: it comes where its user has said too little.
        for _turn, entry in chain(self._prompts(), self._short(role=Role.ASSISTANT)):
            retold = self._retold(entry)
            found = retold or next(self._recalled_words(entry), None)
            if found:
                yield _question(RETOLD if retold else KNOWN, found, [entry])

    def _retold(self, entry: Entry) -> str | None:
        """A sentence of the exchange's summary, written by a model, that is of this message and not in its words."""
        uid = entry.exchange_uid or ""
        made = read_summaries(self.tx, EXCHANGE, [uid]).get(uid)
        own, plain = content_terms(entry.text), " ".join(entry.text.lower().split())
        for sentence in split_sentences(made.text) if made and made.model != EXTRACTIVE else ():
            terms = telling_terms(sentence)
            is_told = len(terms) >= _LEAST_TERMS and share_held(terms, own) >= _QUOTED_SHARE
            if is_told and sentence.lower() not in plain:
                return sentence
        return None

    def _recalled_words(self, entry: Entry) -> Iterator[str]:
        """The rarest words of a sentence that others have too, and no other message has together."""
        sentences = [each for each in split_sentences(entry.text) if not is_bare_question(each)]
        for sentence in (sentences[place] for place in self._chance.permutation(len(sentences))):
            holders = self._rare([term for term in telling_terms(sentence) if term.isalpha()])
            shared = sorted((len(held), term) for term, held in holders.items() if len(held) > 1)
            for chosen in combinations([term for _, term in shared[:_CHOSEN_AMONG]], _LEAST_TERMS):
                if frozenset.intersection(*(holders[term] for term in chosen)) == {entry.id}:
                    # The rarest first: in another order than they were said.
                    who = entry.author or ("I" if entry.role == Role.USER else "you")
                    yield f"What did {who} say about {' '.join(chosen)}?"
                    break

    def _quoted(self) -> Iterator[MinedQuestion]:
        """Prompts that say themselves that something was said before."""
        speakers = {phrase: roles for roles, phrase in (line.split(": ") for line in lines_of("quoting"))}
        asking = RowScope(_SAID.sources, roles=(Role.USER,))
        holding = self.tx.text.holders(self.tx.connection, list(speakers), asking).of
        named = frozenset().union(*holding.values())
        said = [turn for turn in self.turns if turn.entry_id in named]
        for turn, entry in self._texts(self._spread(said)):
            for sentence in split_sentences(entry.text):
                phrase = next((each for each in speakers if each in sentence.lower()), None)
                if phrase is None:
                    continue
                about, roles = telling_terms(sentence.lower().replace(phrase, " ")), tuple(speakers[phrase].split("|"))
                scope = RowScope(_SAID.sources, roles=roles, until=to_microseconds(turn.created_at))
                gold = self._holding(about, scope, apart_from=turn)
                if gold:
                    yield _question(QUOTED, sentence, gold, entry)
                    break

    def _saved(self) -> Iterator[MinedQuestion]:
        """What was saved: the message that it was saved from."""
        for turn, entry in self._texts(self._spread(list_turns(self.tx, "memory"))):
            scope = RowScope(_SAID.sources, until=to_microseconds(turn.created_at))
            if gold := self._holding(telling_terms(entry.text), scope):
                yield _question(SAVED, entry.text, gold, asked_at=entry.created_at)

    def _holding(self, terms: Sequence[str], scope: RowScope, apart_from: PlacedTurn | None = None) -> list[Entry]:
        """The one or two messages that have most of the words, where that is enough of them."""
        counts = self._counts(terms, scope)
        if apart_from is not None:
            counts = {each: count for each, count in counts.items() if self._is_apart(each, apart_from)}
        most = max(counts.values(), default=0)
        best = [entry_id for entry_id, count in counts.items() if count == most]
        rare = self._rare(terms).values()
        if any(sum(entry_id in held for held in rare) < _LEAST_RARE for entry_id in best):
            return []
        if most < _LEAST_TERMS or most < _QUOTED_SHARE * len(terms[:_MOST_TERMS]) or len(best) > 2:
            return []
        return list(load_entries(self.tx, best).values())

    def _counts(self, terms: Sequence[str], scope: RowScope) -> dict[int, int]:
        """How many of the words each entry of a scope has."""
        return _counted(self.tx.text.holders(self.tx.connection, terms[:_MOST_TERMS], scope).of.values())

    def _small_talk(self) -> Iterator[MinedQuestion]:
        """Prompts of the owner that name nothing, whether or not the rules for small talk know them."""
        for _turn, entry in self._prompts(_SMALL_TALK_CHARS):
            if entry.text.strip() and (is_small_talk(parse_query(entry.text)) or not telling_terms(entry.text)):
                yield _question(SMALL_TALK, entry.text, [], entry)

    def _new_matters(self) -> Iterator[MinedQuestion]:
        """Questions of the owner of whose words half were said in no other conversation until then."""
        for turn, entry in self._prompts():
            terms = telling_terms(entry.text)[:_MOST_TERMS]
            if not asks(entry.text):
                continue
            until, here = to_microseconds(turn.created_at), turn.conversation_id
            scope = RowScope(_SAID.sources, until=until, without_conversation_id=here)
            holding = self.tx.text.holders(self.tx.connection, terms, scope)
            unsaid = sum(not holders for holders in holding.of.values())
            together = max(_counted(holding.of.values()).values(), default=0)
            if holding.entries >= _HISTORY_BEFORE and unsaid >= _UNSAID_SHARE * len(terms) and together < _LEAST_RARE:
                yield _question(NEW, entry.text, [], entry)

    def _off_topic(self) -> Iterator[MinedQuestion]:
        """Prompts of a fixed list of whose words no message has half."""
        for text in lines_of("off_topic"):
            terms = telling_terms(text)
            if 2 * max(self._counts(terms, _SAID).values(), default=0) < max(2, len(terms)):
                yield MinedQuestion(OFF_TOPIC, text)


def asks(text: str) -> bool:
    """Whether a text asks about something; "a lovely place, right?" does not."""
    asking = word_lists("courtesies/any_language")["questions"]
    sentences = [each for each in split_sentences(text) if not asking.isdisjoint(parse_query(each).words)]
    return len(telling_terms(text)) >= _LEAST_TERMS and any(map(is_bare_question, sentences))


def _counted(groups: Iterable[frozenset[int]]) -> dict[int, int]:
    """In how many groups each is."""
    return Counter(each for group in groups for each in group)


def telling_terms(text: str) -> list[str]:
    """The words of a text that say what it is about, each once."""
    return [
        term
        for term in dict.fromkeys(content_terms(text))
        if (len(term) > 2 or not term.isascii()) and term not in passing_words()
    ]


def _question(
    kind: str, text: str, gold: Sequence[Entry], asked: Entry | None = None, asked_at: datetime | None = None
) -> MinedQuestion:
    """A prompt that was `asked` as an entry of that time and place, or outside of all conversations."""
    place = asked.conversation_uid if asked else None
    return MinedQuestion(
        kind,
        text,
        frozenset(entry.ref_uid for entry in gold),
        frozenset(entry.exchange_uid for entry in gold if entry.exchange_uid),
        place,
        asked.created_at if asked else asked_at,
        place is None or not gold or any(entry.conversation_uid != place for entry in gold),
    )
