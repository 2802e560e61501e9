"""What the searches of one call share: settings, a view of the store, the space that answers, each query's vector."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from harken.config.sections import SearchConfig
from harken.errors import MissingExtraError, NotFoundError, ProviderError
from harken.log import Log
from harken.model.conversations import SearchScope
from harken.model.provenance import Provenance
from harken.providers.embedder import Embedder, QueryVectors, Vectors
from harken.providers.priority import FOREGROUND
from harken.search.query import Query
from harken.search.query import QueryVector as QueryVector
from harken.storage.enrichment.jobs import blocked_reason, is_enabled
from harken.storage.entries import ANY_ENTRY, has_entries
from harken.storage.open import SharedTransaction as SharedTransaction
from harken.storage.ports import RowScope, Store, StoredSpace, Transaction
from harken.storage.projects import EVERY_PROJECT, ProjectScope, projects_like, projects_question
from harken.storage.vectors import (
    A_BATCH,
    EMBED,
    ENGLISH,
    FOREIGN,
    Backlog,
    answering_spaces,
    backlog,
    backlog_question,
    count_embeddable,
    count_waiting,
    spaces_question,
)
from harken.text.words import foreign_share, is_english

GO_ON = "harken worker run --until-idle"
NOTHING_EMBEDDED = f"Searched by words alone: nothing is embedded yet. Go on: {GO_ON}"
NO_MODEL = "No embedding model is set, and nothing is found by meaning. Set one: harken config set embedder onnx"
NOTHING_RECORDED = "Nothing is recorded yet. Bring in what there is: harken import"
UNINDEXED = "Nothing of this kind is indexed yet. Bring in what there is: harken index all"
EMPTY = frozenset((NOTHING_RECORDED, UNINDEXED))
_FOREIGN = "Searched by words alone: the embedding model does not know this script."
_LOADING = "Searched by words alone: the embedding model is being loaded."
# A percent of a million takes embedding minutes, and counting them a tenth of a second.
_COUNTED_SECONDS = 30.0
# Queries that are embedded at one time.
_AT_ONCE = 8
_CANDIDATES_ELSEWHERE = 80
# More of a query in another script, and a model that does not know it has nothing to say.
_MOSTLY = 0.5
# Scopes whose rows are remembered.
_MOST_GUESSES = 1_000

_Value = TypeVar("_Value")

_log = Log(__name__)


@dataclass(slots=True)
class Coverage:
    """Tells what share is embedded; every entry is counted at most twice a minute, and only while many wait."""

    _percent: int = field(default=0, init=False)
    _counted_at: float | None = field(default=None, init=False)

    def notes(self, tx: Transaction, now: datetime) -> list[str]:
        """What to say with a search by meaning: nothing where all is embedded, or will be in a moment.

        A batch that somebody has in hand is a moment's work: in a chat, that is what was said just now.
        """
        found = backlog(tx, now)
        if not found.waiting or (found.waiting <= found.running and found.waiting <= A_BATCH):
            return []
        clock = time.monotonic()
        if self._counted_at is None or clock - self._counted_at >= _COUNTED_SECONDS:
            waiting, embeddable = count_waiting(tx), count_embeddable(tx)
            if waiting <= 0:
                # Only what was given up has no vector.
                return []
            self._percent, self._counted_at = 100 * (embeddable - waiting) // embeddable, clock
        share = f"{self._percent} %" if self._percent else "Under 1 %"
        return [f"{share} embedded; the rest is found by words alone. {_how(tx, found)}"]


def _how(tx: Transaction, found: Backlog) -> str:
    if not is_enabled(tx, EMBED):
        return f"Embedding is switched off. Go on: harken embeddings on, and then: {GO_ON}"
    if found.running:
        return "Embedding goes on in the background."
    why = blocked_reason(tx, EMBED)
    return f"Embedding stands still: {why}" if why else f"Go on: {GO_ON}"


# A sentence where words alone must do.
_Answer = QueryVector | str


@dataclass(frozen=True, slots=True)
class Guess:
    """How a search went that is likely to be asked for again, so that it can be asked before it is known how it goes.

    Attributes:
        scope: with row ids.
        unseen: how many of the records that were left out have no entry.
    """

    scope: RowScope
    unseen: int = 0


@dataclass(slots=True)
class Experienced:
    """What was learned of a store by searching it, which the next search may rely on as far as it holds good.

    Attributes:
        spaces: those that answer, by their state, as they were when a query was last begun.
        guesses: of the scopes that were searched last.
        was_empty: it had nothing when it was read last, and so nothing else is asked with whether it has now.
    """

    coverage: Coverage = field(default_factory=Coverage)
    spaces: Mapping[str, StoredSpace] = field(default_factory=dict)
    guesses: dict[Hashable, Guess] = field(default_factory=dict)
    was_empty: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, wanted: Hashable, guess: Guess) -> None:
        """Keep a guess; the oldest go."""
        with self._lock:
            self.guesses.pop(wanted, None)
            self.guesses[wanted] = guess
            while len(self.guesses) > _MOST_GUESSES:
                del self.guesses[next(iter(self.guesses))]


class SearchSession:
    """Searches that belong together; of one thread, and closed by leaving it as a context.

    While it is open, the background gives way.

    Attributes:
        config: how these searches fuse, weigh and hold to thresholds.
        view: the store, whose readings are one transaction.
        now: the moment for all of them.
        known: what was learned by earlier searches.
        space: the id of the space that is searched, where there are several; else empty.
        others: what else may be read, and is searched as well; None where that is all.
        projects: what they see of other projects than the one at hand.
        by_words: whether words alone must do, for nobody can wait until the model is loaded.
        unread: what to say of other spaces that failed.
        seen_from: by what guesses are told apart: from another project, other rows are seen.
    """

    def __init__(self, sessions: SearchSessions, config: SearchConfig, projects: ProjectScope) -> None:
        self.config = config
        self.projects = projects
        self.by_words = False
        self.seen_from: Hashable = projects.own
        self.known = sessions.known
        self.space, self.others = sessions.space, sessions.union
        self.view = SharedTransaction(sessions.store)
        self.now = sessions.now()
        self._sessions = sessions
        self._looked_ahead = set[Hashable]()
        self._neighbours: list[Neighbour] | None = None
        self._asked: dict[tuple[str, bool], Future[_Answer] | str] = {}
        self._notes: list[str] | None = None
        self.unread: list[str] = []

    def look_ahead(self, what: Hashable, ask: LookAhead) -> None:
        """Have a server asked by one message for what is likely to be asked, each kind once; no-op without a server."""
        if what in self._looked_ahead:
            return
        with self.view.reading() as tx:
            if tx.dialect.is_remote:
                if not self._looked_ahead:
                    notes = [backlog_question(tx, self.now)] if self._notes is None else []
                    tx.dialect.foresee(tx.connection, spaces_question(tx), *notes)
                ask(tx, self)
        self._looked_ahead.add(what)

    def guess(self, wanted: SearchScope) -> Guess | None:
        """How a search of a scope will go, as it is asked for and from where; None where none went before."""
        return self.known.guesses.get((wanted, self.seen_from))

    def note(self, wanted: SearchScope, guess: Guess) -> None:
        """Remember how it went."""
        self.known.note((wanted, self.seen_from), guess)

    def asked(
        self, ask: Callable[[SearchSession], _Value], ahead: LookAhead = lambda _tx, _there: None
    ) -> list[tuple[str, _Value]]:
        """Ask this space, and side by side all others that may be read; the answers by space, this one's first.

        Where something is named that only some have, the others have no answer. What fails is logged and noted.

        Args:
            ask: what each answers.
            ahead: foresees what the others will be asked.
        Raises:
            NotFoundError: none has what is named.
        """
        union = self.others
        if union is not None and self._neighbours is None:
            self._neighbours = [Neighbour(self, each.beside(self)) for each in union.neighbours()]
        beside = [each for each in self._neighbours or () if not each.is_empty]
        asking = [(one.space, union.threads.submit(one.answer, ask, ahead)) for one in beside if union is not None]
        answers: list[tuple[str, _Value]] = []
        missing: NotFoundError | None = None
        try:
            answers.append((self.space, ask(self)))
        except NotFoundError as error:
            missing = error
        for space, asked in asking:
            with attempted("a space of the team", self.unread), suppress(NotFoundError):
                if (found := asked.result()) is not None:
                    answers.append((space, found))
        if missing is not None and not answers:
            raise missing
        return answers

    def begin(self, query: Query, known_scripts_only: bool = False) -> Future[_Answer] | str:
        """Have a query embedded, once, while rows are read: each takes about as long, and neither needs the other.

        With `known_scripts_only`, words alone must do where the model was not made for the query's script.
        """
        if self.by_words:
            return _LOADING
        key = query.text, known_scripts_only and foreign_share(query.text) > _MOSTLY
        if key not in self._asked:
            # The spaces seldom change: the model is at work while they are asked for.
            guessed = self.known.spaces
            begun = self._sessions.embed(guessed, *key) if "active" in guessed else None
            with self.view.reading() as tx:
                self.known.spaces = answering_spaces(tx)
            if begun is None or self.known.spaces != guessed:
                begun = self._sessions.embed(self.known.spaces, *key) if "active" in self.known.spaces else None
            self._asked[key] = begun or self._sessions.why_words
        return self._asked[key]

    def vector(self, query: Query, known_scripts_only: bool = False) -> _Answer:
        """The query's vector once it is there; a sentence where words alone must do.

        Raises:
            ProviderError: the model failed, or cannot be opened.
            MissingExtraError: what the model needs is not installed.
        """
        asked = self.begin(query, known_scripts_only)
        return asked if isinstance(asked, str) else self.view.wait_for(asked)

    def notes(self, tx: Transaction) -> list[str]:
        """What to say with a search by meaning, looked up once for all of them; see `Coverage`."""
        if self._notes is None:
            self._notes = self.known.coverage.notes(tx, self.now)
        return self._notes

    def leave_notes_out(self) -> None:
        """Have none looked up: the space at hand says what is to be said."""
        self._notes = []

    def __enter__(self) -> SearchSession:
        FOREGROUND.__enter__()
        return self

    def __exit__(self, *_error: object) -> None:
        FOREGROUND.__exit__()
        self.release()

    def release(self) -> None:
        """End the view; whoever reads next begins another, and looks ahead again."""
        self._looked_ahead.clear()
        self.view.release()


# Foresees what a session is likely to ask.
LookAhead = Callable[[Transaction, SearchSession], object]


@dataclass(frozen=True, slots=True)
class Union:
    """What is read besides a space.

    Attributes:
        neighbours: opens the other spaces that may be read.
        threads: in which they are asked.
        provenance: tells of things, each named by its space and its ids, whose words they are; None of one's own.
    """

    neighbours: Callable[[], Sequence[SearchSessions]]
    threads: Executor
    provenance: Callable[[Sequence[tuple[str, Sequence[str]]]], list[Provenance | None]]


class Neighbour:
    """Another space that a session reads besides its own; asked by one thread at a time.

    Attributes:
        is_empty: whether it has nothing, as far as that is known.
    """

    def __init__(self, here: SearchSession, there: SearchSession) -> None:
        self.space = there.space
        self.is_empty = False
        self._here, self._there = here, there
        self._is_known = False

    def answer(self, ask: Callable[[SearchSession], _Value], ahead: LookAhead) -> _Value | None:
        """What it answers; None where it has nothing. It holds no connection between two questions."""
        there = self._there
        try:
            if there.known.was_empty and not self._is_known:
                self._look()
            if not self.is_empty:
                there.look_ahead("union", ahead)
            if not self._is_known:
                self._look()
            return None if self.is_empty else ask(there)
        finally:
            there.release()

    def _look(self) -> None:
        with self._there.view.reading() as tx:
            tx.dialect.end_with(tx.connection, (ANY_ENTRY, {"of_tenant": tx.tenant}), projects_question(tx))
            self.is_empty = self._there.known.was_empty = not has_entries(tx)
        self._there.projects = projects_like(self._there.view, self._here.projects)
        self._is_known = True


@dataclass(slots=True)
class SearchSessions:
    """Opens the sessions of a store, embeds their queries in threads, and remembers the vectors of the last ones.

    Args:
        config: read anew for each session.
        embedder_of: opens the model of a space; None where no model is to be asked.
        models: those of other stores of the process, if there are any.
        space: the id of the store's space, in a team.
        union: what else is searched with it.
        known: what was learned of the store by searching it before, if anything was.
        has_model: whether the settings name an embedding model.
    """

    store: Store
    config: Callable[[], SearchConfig]
    embedder_of: Callable[[StoredSpace], Embedder | None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    models: QueryModels = field(default_factory=lambda: QueryModels())
    space: str = ""
    union: Union | None = None
    known: Experienced = field(default_factory=Experienced)
    has_model: bool = True

    @property
    def why_words(self) -> str:
        """Why words alone must do where no model answers."""
        return NOTHING_EMBEDDED if self.has_model else NO_MODEL

    def open(self, projects: ProjectScope = EVERY_PROJECT, **changes: Any) -> SearchSession:
        """A session by the settings in force, but for these changes; it sees every project unless told otherwise."""
        return SearchSession(self, self.config().model_copy(update=changes) if changes else self.config(), projects)

    def beside(self, here: SearchSession) -> SearchSession:
        """A session for what another space's reads besides, by its settings and from the same project."""
        # Its best are what matters beside the others' best.
        most = min(here.config.candidates, _CANDIDATES_ELSEWHERE)
        session = SearchSession(self, here.config.model_copy(update={"candidates": most}), EVERY_PROJECT)
        session.by_words, session.seen_from = here.by_words, here.seen_from
        session.leave_notes_out()
        return session

    def joined(self, session: SearchSession | None) -> AbstractContextManager[SearchSession]:
        """The session, left open for whoever opened it; a new one where there is none."""
        return nullcontext(session) if session else self.open()

    def embed(self, spaces: Mapping[str, StoredSpace], text: str, unless_foreign: bool) -> Future[_Answer]:
        """Embed a query in a thread, where its model is opened first if it has to be; what fails is tried again.

        A model that knows the Latin script alone is not asked for what is foreign to it, if that is wanted, unless
        there is a second one.
        """
        return self.models.submit(self._embedded, spaces, text, unless_foreign)

    def _embedded(self, spaces: Mapping[str, StoredSpace], text: str, unless_foreign: bool) -> _Answer:
        first, note = spaces["active"], ""
        kinds = (FOREIGN,) if is_english(text) else (FOREIGN, ENGLISH)
        second: list[tuple[StoredSpace, Vectors]] = []
        try:
            for space in [spaces[kind] for kind in kinds if kind in spaces]:
                if opened := self._open(space):
                    second.append((space, second[0][1] if second else opened[1](text)))
        except (ProviderError, MissingExtraError) as error:
            second, note = [], f"Searched without the model for other languages: {error}"
        if second and ENGLISH in kinds:
            return QueryVector(first, tuple(second))
        opened = self._open(first)
        if opened is None:
            return self.why_words
        embedder, vector_of = opened
        if unless_foreign and embedder.space.latin_only:
            return note or _FOREIGN
        return QueryVector(first, ((first, vector_of(text)), *second), note=note)

    def _open(self, space: StoredSpace) -> tuple[Embedder, QueryVectors] | None:
        """The model of a space, and what embeds a query with it; None where none is to be asked."""
        if space.name not in self.models.opened:
            embedder = self.embedder_of(space)
            if embedder is None:
                return None
            self.models.opened[space.name] = embedder, QueryVectors(embedder)
        return self.models.opened[space.name]


@dataclass(slots=True)
class QueryModels:
    """What embeds queries; the stores of one process share it, so that a query of several is embedded once.

    Attributes:
        threads: in which that is done.
        opened: models by their spaces' names, each with what embeds a query with it.
    """

    threads: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, _AT_ONCE, "embed"))
    opened: dict[str, tuple[Embedder, QueryVectors]] = field(default_factory=dict)
    _pid: int = field(default_factory=os.getpid)

    def submit(self, work: Callable[..., _Value], *given: Any) -> Future[_Value]:
        """Have work done in a thread; a process that was forked has none of its parent's, and begins its own."""
        if self._pid != os.getpid():
            self.threads, self.opened, self._pid = ThreadPoolExecutor(_AT_ONCE, "embed"), {}, os.getpid()
        return self.threads.submit(work, *given)


@contextmanager
def attempted(part: str, notes: list[str], note: str = "Searched without {part}: {error}.") -> Iterator[None]:
    """A part of a search that may fail, which is logged and noted: memory must never stop a chat."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the other parts have an answer; the failure is logged and shown
        name = type(error).__name__
        _log.warning("search_part_failed", part=part, error_class=name)
        notes.append(note.format(part=part, error=name))
