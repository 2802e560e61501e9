"""The embedding job: entries without a vector in the current space get one, newest first; then one for languages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from harken.errors import HarkenError
from harken.jobs.job import Job
from harken.log import Log
from harken.model.conversations import spoken
from harken.providers.embedder import Embedder, Resting, Vectors, unit_rows
from harken.providers.priority import give_way
from harken.storage.enrichment.jobs import (
    Claimed,
    claim_second,
    claim_unembedded,
    complete,
    count_unembedded,
    count_without_second,
    owned_question,
    second_state,
)
from harken.storage.ports import MESSAGE_SOURCE, Store, StoredSpace, Transaction
from harken.storage.records.rules import note_rules
from harken.storage.vectors import (
    EMBED,
    EMBED_LANGUAGES,
    ENGLISH,
    FOREIGN,
    activate_space,
    finish_second,
    put_vectors,
    settle_without_vector,
)
from harken.text import tokens
from harken.text.kinds import RULE, is_told
from harken.text.words import is_english, spelled

# How much of an entry the model reads where entries are long: what tells most comes first in them, and every token
# takes time, which a repository's thousands feel. The rest is found by its words.
_READ_TOKENS = {"code": 56, "commit": 48}
# The model takes each mark of code for a word, and learns little from it: docs/adr/0015-index.md.
_SPELLED, _TOKENS_BEFORE = "code", 200
# Where writers run beside each other, an entry may be seen after one with a higher number.
_LATE = 1_000
# Whether an index has to grow is looked up after so many vectors, or once in so long: behind every message of a talk it
# takes a server more than to store the message's vector.
_WORTH_INDEXING, _INDEXED_EVERY = 100, timedelta(minutes=1)
_STEPS_AT_ONCE = 50
_log = Log(__name__)


@dataclass
class LanguageWork(Job[Claimed, Vectors]):
    """Embeds one batch at a time by the second model, into the space of what is English or of what is not.

    Args:
        spaces: that model's, by what they hold.
    """

    store: Store
    embedder: Embedder
    spaces: dict[str, StoredSpace]
    batch_size: int
    lease_seconds: float
    now: Callable[[], datetime]
    _after: int = field(default=0, init=False)
    _state: tuple[int, int, int] = field(default=(0, 0, 0), init=False)
    _finished: bool = field(default=False, init=False)

    name = EMBED_LANGUAGES
    row = "entry_id"
    locks = ()

    def _count(self, tx: Transaction) -> int:
        return count_without_second(tx, tuple(self.spaces.values()))

    def _claim(self, tx: Transaction, rows: Sequence[int]) -> list[list[Claimed]]:
        if not self._after:
            self._state = second_state(tx)
        limits = self.owner, self.batch_size, self.now(), self.lease_seconds
        claimed = claim_second(tx, tuple(self.spaces.values()), self._after - _LATE, *limits)
        self._after = max([self._after, *(item.entry_id for item in claimed)])
        self.is_drained = len(claimed) < self.batch_size and self._finished
        return [claimed] if claimed else []

    def finish(self, tx: Transaction, items: list[Claimed], made: Sequence[tuple[Claimed, Vectors]]) -> set[int]:
        """Keep vectors of what was leased with the first model's, and end these leases, on what has none as well."""
        mine = self._owned(tx, items)
        self.stored += self._keep(tx, [(item, vector) for item, vector in made if item.entry_id in mine])
        complete(tx, self.name, sorted(mine))
        done = {item.entry_id for item in items}
        self._after = max([self._after, *done]) if self.is_drained else self._after
        return done

    def _make(self, items: list[Claimed]) -> Sequence[Vectors]:
        made = _embedded(self.embedder, items)
        self._answered()
        return made

    def _keep(self, tx: Transaction, made: Sequence[tuple[Claimed, Vectors]]) -> int:
        import numpy as np

        kept = 0
        for kind, space in self.spaces.items():
            mine = [(item.entry_id, vector) for item, vector in made if is_english(item.text) is (kind == ENGLISH)]
            if mine:
                ids, vectors = zip(*mine, strict=True)
                matrix = np.stack(vectors)
                kept += put_vectors(tx, space, ids, matrix, is_second=True)
                note_rules(tx, space, ids, matrix)
        return kept

    def _idle(self) -> None:
        _rest(self.embedder)
        with self.store.reading() as tx:
            state = second_state(tx)
            # What was removed, given up, or taken on by others may wait again, wherever it stands.
            if state[:2] != self._state[:2] or state[2]:
                self._after = 0
            waits = not self._finished and self._count(tx) > 0
        if not waits and not self._finished:
            with self.store.writing() as tx:
                finish_second(tx)
            self._finished = True
            self.store.nearest.build_index()


@dataclass
class EmbedWork(Job[Claimed, "tuple[Vectors | None, Vectors | None]"]):
    """Embeds one batch at a time; the last one that waits by the second model as well, which costs no other turn.

    Args:
        space: the space that `embedder` fills.
        batch_size: 1 to 100; a batch is stored whole or not at all.
        second: done when nothing else is left.
        min_message_tokens: a person's message of fewer is looked at for a rule alone, and keeps no vector.
    """

    store: Store
    embedder: Embedder
    space: StoredSpace
    batch_size: int
    lease_seconds: float
    now: Callable[[], datetime]
    second: LanguageWork | None = None
    min_message_tokens: int = 10
    _indexed: int = field(default=0, init=False)
    _indexed_at: datetime = field(default=datetime.min.replace(tzinfo=UTC), init=False)
    _is_merged: bool = field(default=True, init=False)
    _beside: set[int] = field(default_factory=set, init=False)

    name = EMBED
    row = "entry_id"
    locks = ()

    def run_once(self) -> int:
        """Do one batch; how many items were taken on, well or not, 0 when there is nothing to do now."""
        before = self.second.stored if self.second else 0
        done = super().run_once() + (self.second.stored - before if self.second else 0)
        if self.second and self._beside:
            # The first model failed, or somebody else has taken them over.
            self.second.give_back()
            self.second.is_drained, self._beside = False, set()
        if self.second and (not done or (self.is_drained and not self.second.is_drained)):
            done += self.second.run_once()
            self.is_drained = self.is_drained and self.second.is_drained
        return done

    def waiting(self) -> int:
        """Count the items that are still to be done."""
        return super().waiting() + (self.second.waiting() if self.second else 0)

    def texts_waiting(self) -> int:
        """Count what the first model has to do, each text once; what the second has where nothing else is left.

        The second takes an eighth of the time.
        """
        return super().waiting() or self.waiting()

    def give_back(self) -> None:
        """Return unfinished leases, for a worker that stops in the middle."""
        super().give_back()
        if self.second:
            self.second.give_back()

    def _count(self, tx: Transaction) -> int:
        return count_unembedded(tx, self.space)

    def _claim(self, tx: Transaction, rows: Sequence[int]) -> list[list[Claimed]]:
        limits = self.batch_size, self.now(), self.lease_seconds, self.max_retries
        claimed = claim_unembedded(tx, self.space, self.owner, *limits, self.second.owner if self.second else "")
        # What is to be done once nothing is found is done first.
        is_settled = self.space.state == "active" and self.stored - self._indexed < _WORTH_INDEXING
        self.is_drained = len(claimed) < self.batch_size and is_settled
        self._beside = {item.entry_id for item in claimed if item.is_for_both}
        return [claimed] if claimed else []

    def _make(self, items: list[Claimed]) -> Sequence[tuple[Vectors | None, Vectors | None]]:
        made = dict.fromkeys([item.entry_id for item in items])
        for is_second in (False, True):
            model = self.second.embedder if is_second and self.second else self.embedder
            mine = [item for item in items if self._reads(item) is is_second]
            made |= zip([item.entry_id for item in mine], _embedded(model, mine) if mine else (), strict=True)
        self._answered()
        second = self._made_beside([item for item in items if item.is_for_both and not self._is_brief(item)])
        return [(made[item.entry_id], second.get(item.entry_id)) for item in items]

    def _made_beside(self, items: Sequence[Claimed]) -> dict[int, Vectors]:
        """Vectors of the second model, by rows; none where it fails: then its own turn comes to them."""
        made: Sequence[Vectors] = ()
        if self.second and items:
            try:
                made = _embedded(self.second.embedder, items)
            except HarkenError as error:
                _log.warning("second_model_failed", items=len(items), error_class=type(error).__name__)
                self.second.is_drained = False
        return {item.entry_id: vector for item, vector in zip(items, made, strict=False)}

    def _keep(self, tx: Transaction, made: Sequence[tuple[Claimed, tuple[Vectors | None, Vectors | None]]]) -> int:
        import numpy as np

        brief = [item.entry_id for item, _ in made if self._is_brief(item)]
        kept = 0
        for is_second in (False, True):
            mine = [(item.entry_id, v) for item, (v, _) in made if v is not None and self._reads(item) is is_second]
            if mine:
                ids, matrix = [each for each, _ in mine], np.stack([vector for _, vector in mine])
                note_rules(tx, self.second.spaces[FOREIGN] if is_second and self.second else self.space, ids, matrix)
                whole = [row for row, each in enumerate(ids) if each not in brief]
                kept += put_vectors(tx, self.space, [ids[row] for row in whole], matrix[whole]) if whole else 0
        settle_without_vector(tx, brief)
        if self.second and self._beside:
            second = [(item, vector) for item, (_, vector) in made if vector is not None]
            self._beside -= self.second.finish(tx, [item for item, _ in made if item.is_for_both], second)
        return kept

    def _owned(self, tx: Transaction, items: list[Claimed]) -> set[int]:
        if self.second and (both := [item.entry_id for item in items if item.is_for_both]):
            tx.dialect.foresee(tx.connection, owned_question(tx, self.second.name, both, self.second.owner))
        return super()._owned(tx, items)

    def _is_brief(self, item: Claimed) -> bool:
        return item.source == MESSAGE_SOURCE and not tokens.reaches(item.text, self.min_message_tokens)

    def _reads(self, item: Claimed) -> bool | None:
        """Whether the second model reads an item; None where none does: it is brief, and no model tells rules of it."""
        if not self._is_brief(item):
            return False
        is_abroad = not is_english(item.text)
        space = self.space if not is_abroad else self.second.spaces[FOREIGN] if self.second else None
        return is_abroad if space is not None and is_told(RULE, space.name) else None

    def _idle(self) -> None:
        _rest(self.embedder)
        if self.space.state != "active":
            self._take_over()
        fresh = self.stored - self._indexed
        if fresh >= _WORTH_INDEXING or (fresh and self.now() - self._indexed_at >= _INDEXED_EVERY):
            self.store.nearest.build_index()
            self._indexed, self._indexed_at, self._is_merged = self.stored, self.now(), False
        # In steps, for somebody may wait to write; after so many, for whoever waits until there is nothing to do.
        for _ in range(0 if self._is_merged else _STEPS_AT_ONCE):
            give_way()
            with self.store.writing() as tx:
                self._is_merged = not tx.text.merge(tx.connection)
            if self._is_merged:
                break

    def _take_over(self) -> None:
        with self.store.writing() as tx:
            if count_unembedded(tx, self.space):
                return
            activate_space(tx, self.space)
        self.space = replace(self.space, state="active")
        self.store.nearest.discard()
        _log.info("space_activated", space=self.space.name)


def _embedded(embedder: Embedder, items: Sequence[Claimed]) -> list[Vectors]:
    """The items' vectors, in order; what agents say again and again is embedded once."""
    texts = [_read(item) for item in items]
    found = dict.fromkeys(texts)
    vectors = dict(zip(found, unit_rows(embedder.embed_passages(list(found))), strict=True))
    return [vectors[text] for text in texts]


def _rest(embedder: Embedder) -> None:
    if isinstance(embedder, Resting):
        embedder.rest()


def _read(item: Claimed) -> str:
    """The beginning of an entry, where the rest would take long and say little."""
    text = spoken(item.author, item.text)
    most = _READ_TOKENS.get(item.source)
    if item.source == _SPELLED:
        text = spelled(tokens.clip(text, _TOKENS_BEFORE, marker="")) or text
    return text if most is None else tokens.clip(text, most, marker="")
