"""What the searches of one call share: settings, a view of the store, the space that answers, each query's vector."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
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
from harken.storage.enrichment.jobs import blocked_reason, is_enabled
from harken.storage.entries import has_entries
from harken.storage.ports import NearestIndex, Readable, RowScope, Store, StoredSpace, Transaction
from harken.storage.projects import EVERY_PROJECT, ProjectScope, projects_like
from harken.storage.vectors import (
    A_BATCH,
    EMBED,
    ENGLISH,
    FOREIGN,
    Backlog,
    answering_spaces,
    backlog,
    count_embeddable,
    count_waiting,
)
from harken.text.kinds import TALK, leaning
from harken.text.words import foreign_share, is_english, lines_of

GO_ON = "harken worker run --until-idle"
NOTHING_EMBEDDED = f"Searched by words alone: nothing is embedded yet. Go on: {GO_ON}"
NOTHING_RECORDED = "Nothing is recorded yet. Bring in what there is: harken import"
_FOREIGN = "Searched by words alone: the embedding model does not know this script."
_LOADING = "Searched by words alone: the embedding model is being loaded."
# A percent of a million takes embedding minutes, and counting them a tenth of a second.
_COUNTED_SECONDS = 30.0
# Queries that are embedded at one time.
_AT_ONCE = 8
_CANDIDATES_ELSEWHERE = 80
# More of a query in another script, and a model that does not know it has nothing to say.
_MOSTLY = 0.5
# A local model needs a tenth of it; so long a search keeps its view of the store, for another one costs a millisecond.
_SOON_SECONDS = 0.05

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


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query in the spaces that answer.

    What is asked in English is looked for in the first model's space, and in the second one's among texts that are not
    English; what is asked in another language, in all of the second one's.

    Attributes:
        space: that of the first model, on whose scale all similarities are.
        readings: spaces with the query's vector, `(dims,)` float32, unit length, read-only; the first model's first.
        note: why the second one was not asked, in a sentence; empty where nothing failed.
    """

    space: StoredSpace
    readings: tuple[tuple[StoredSpace, Vectors], ...]
    note: str = ""

    @property
    def is_english(self) -> bool:
        """Whether it is asked for by the first model; the second one knows English as well as the others."""
        return self.readings[0][0].id == self.space.id

    @property
    def is_talk(self) -> bool:
        """Whether it resembles what asks for nothing that was said, in whatever language its model knows."""
        space, vector = self.readings[0]
        leaned = leaning(TALK, space.name, vector[None])
        return leaned is not None and bool(leaned[0] > 0.0)

    def compare(
        self, tx: Transaction, index: NearestIndex, scope: RowScope, limit: int, also: Sequence[int]
    ) -> tuple[dict[int, float], dict[int, float], dict[int, bool]]:
        """The nearest, best first; similarities of those and of these; and what the second model has compared.

        Of that, whether it may have the query's language. It counts by that alone: to a model for English, words of
        another language all look alike.
        """
        near: dict[int, float] = {}
        known: dict[int, float] = {}
        second: dict[int, bool] = {}
        for space, vector in self.readings:
            found, compared = index.compare(tx, space, vector, scope, limit, [*also, *near])
            if space.id != self.space.id:
                found, compared = self._brought(space, found), self._brought(space, compared)
                second |= dict.fromkeys(compared, not self.is_english and space.state == FOREIGN)
            near, known = near | found, known | compared
        if not second:
            return near, known, second
        best = sorted(near, key=lambda entry_id: (-known[entry_id], entry_id))[:limit]
        kept = known.keys() & {*best, *also}
        return (
            {each: known[each] for each in best},
            {each: known[each] for each in kept},
            {each: second[each] for each in second.keys() & kept},
        )

    def _brought(self, space: StoredSpace, similarity: Mapping[int, float]) -> dict[int, float]:
        """Similarities of another space on this one's scale: their threshold is as near as this one's, and 1 is 1."""
        scale = (1.0 - self.space.threshold) / (1.0 - space.threshold)
        return {each: 1.0 - (1.0 - value) * scale for each, value in similarity.items()}


# A sentence where words alone must do.
_Answer = QueryVector | str


class SharedTransaction:
    """A store whose readings are one transaction; of one thread, and closed by leaving it as a context.

    Where a reading fails, the transaction ends with it, and the next one begins another.
    """

    def __init__(self, store: Readable) -> None:
        self.text, self.nearest = store.text, store.nearest
        self._store = store
        self._open = ExitStack()
        self._transaction: Transaction | None = None

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """The one view, begun by whoever first reads."""
        if self._transaction is None:
            self._transaction = self._open.enter_context(self._store.reading())
        try:
            yield self._transaction
        except BaseException as error:
            self._transaction = None
            # The store's own reading sees the error, and says it in our words.
            self._open.__exit__(type(error), error, error.__traceback__)
            raise

    def release(self) -> None:
        """End the view before something that takes long; whoever reads next begins another."""
        self._transaction = None
        self._open.close()

    def wait_for(self, asked: Future[_Value]) -> _Value:
        """What another thread makes; where that takes seconds, it is waited for without a view."""
        if not wait([asked], _SOON_SECONDS).done:
            self.release()
        return asked.result()

    def __enter__(self) -> SharedTransaction:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class Guess:
    """How a search went that is likely to be asked for again, so that it can be asked before it is known how it goes.

    Attributes:
        scope: with row ids.
        unseen: how many of the records that were left out have no entry.
    """

    scope: RowScope
    unseen: int


class SearchSession:
    """Searches that belong together; of one thread, and closed by leaving it as a context.

    While it is open, the background gives way.

    Attributes:
        config: how these searches fuse, weigh and hold to thresholds.
        view: the store, whose readings are one transaction.
        now: the moment for all of them.
        coverage: tells what share is embedded.
        projects: what they see of other projects than the one at hand.
        by_words: whether words alone must do, for nobody can wait until the model is loaded.
        spaces: those that answer, by their state, as they were when a query was last begun.
        guesses: of the scopes that were searched last.
    """

    def __init__(self, sessions: SearchSessions, config: SearchConfig, projects: ProjectScope) -> None:
        self.config = config
        self.projects = projects
        self.by_words = False
        self.spaces = sessions.spaces
        self.guesses = sessions.guesses
        self.view = SharedTransaction(sessions.store)
        self.now = sessions.now()
        self.coverage = sessions.coverage
        self._sessions = sessions
        self._asked: dict[tuple[str, bool], Future[_Answer] | str] = {}
        self._notes: list[str] | None = None

    @property
    def space(self) -> str:
        """The id of the space that is searched, where there are several; else empty."""
        return self._sessions.space

    @property
    def others(self) -> Union | None:
        """What else may be read, and is searched as well; None where that is all."""
        return self._sessions.union

    def asked(self, ask: Callable[[SearchSession], _Value]) -> list[tuple[str, _Value]]:
        """Ask this space, and side by side all others that may be read; the answers by space, this one's first.

        Where something is named that only some have, the others have no answer. One that fails is left out, and logged.

        Raises:
            NotFoundError: none has what is named.
        """
        union = self._sessions.union
        asking = [] if union is None else [(each.space, union.ask(each, self, ask)) for each in union.neighbours()]
        answers: list[tuple[str, _Value]] = []
        missing: NotFoundError | None = None
        try:
            answers.append((self.space, ask(self)))
        except NotFoundError as error:
            missing = error
        for space, asked in asking:
            try:
                found = asked.result()
            except NotFoundError:
                continue
            except Exception as error:  # noqa: BLE001 - the other spaces have an answer; the failure is logged
                found = None
                _log.warning("space_not_searched", error_class=type(error).__name__)
            if found is not None:
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
            with self.view.reading() as tx:
                self.spaces = self._sessions.spaces = answering_spaces(tx)
            is_there = "active" in self.spaces
            self._asked[key] = self._sessions.embed(self.spaces, *key) if is_there else NOTHING_EMBEDDED
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
            self._notes = self.coverage.notes(tx, self.now)
        return self._notes

    def leave_notes_out(self) -> None:
        """Have none looked up: the space at hand says what is to be said."""
        self._notes = []

    def likeness_to_world(self, asked: QueryVector) -> float:
        """How near a query is to questions that the world answers, -1 to 1; -1 by a model that was not measured so.

        Raises:
            ProviderError: the model failed.
        """
        space, vector = asked.readings[0]
        examples = self._sessions.examples(space)
        return -1.0 if examples is None else float((examples @ vector).max())

    def __enter__(self) -> SearchSession:
        FOREGROUND.__enter__()
        return self

    def __exit__(self, *_error: object) -> None:
        FOREGROUND.__exit__()
        self.view.release()


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

    def ask(
        self, there: SearchSessions, here: SearchSession, ask: Callable[[SearchSession], _Value]
    ) -> Future[_Value | None]:
        """Ask another space the same, by the settings of a session, and from the same project; None of an empty one."""
        # Its best are what matters beside the others' best.
        most = min(here.config.candidates, _CANDIDATES_ELSEWHERE)
        config = here.config.model_copy(update={"candidates": most})

        def asked() -> _Value | None:
            with SearchSession(there, config, EVERY_PROJECT) as session:
                with session.view.reading() as tx:
                    if not has_entries(tx):
                        return None
                session.by_words = here.by_words
                session.projects = projects_like(session.view, here.projects)
                session.leave_notes_out()
                return ask(session)

        begun: Future[_Value | None] = self.threads.submit(asked)
        return begun


@dataclass(slots=True)
class SearchSessions:
    """Opens the sessions of a store, embeds their queries in threads, and remembers the vectors of the last ones.

    Args:
        config: read anew for each session.
        embedder_of: opens the model of a space; None where no model is to be asked.
        models: those of other stores of the process, if there are any.
        space: the id of the store's space, in a team.
        union: what else is searched with it.
    """

    store: Store
    config: Callable[[], SearchConfig]
    embedder_of: Callable[[StoredSpace], Embedder | None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    coverage: Coverage = field(default_factory=Coverage, init=False)
    spaces: Mapping[str, StoredSpace] = field(default_factory=dict, init=False)
    guesses: dict[SearchScope, Guess] = field(default_factory=dict, init=False)
    models: QueryModels = field(default_factory=lambda: QueryModels())
    space: str = ""
    union: Union | None = None

    def open(self, projects: ProjectScope = EVERY_PROJECT, **changes: Any) -> SearchSession:
        """A session by the settings in force, but for these changes; it sees every project unless told otherwise."""
        return SearchSession(self, self.config().model_copy(update=changes) if changes else self.config(), projects)

    def joined(self, session: SearchSession | None) -> AbstractContextManager[SearchSession]:
        """The session, left open for whoever opened it; a new one where there is none."""
        return nullcontext(session) if session else self.open()

    def embed(self, spaces: Mapping[str, StoredSpace], text: str, unless_foreign: bool) -> Future[_Answer]:
        """Embed a query in a thread, where its model is opened first if it has to be; what fails is tried again.

        A model that knows the Latin script alone is not asked for what is foreign to it, if that is wanted, unless
        there is a second one.
        """
        return self.models.threads.submit(self._embedded, spaces, text, unless_foreign)

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
            return NOTHING_EMBEDDED
        embedder, vector_of = opened
        if unless_foreign and embedder.space.latin_only:
            return note or _FOREIGN
        return QueryVector(first, ((first, vector_of(text)), *second), note=note)

    def examples(self, space: StoredSpace) -> Vectors | None:
        """The vectors of questions about the world, embedded once; None by a model that was not measured so."""
        if space.name not in self.models.examples:
            embedder = self.models.opened[space.name][0] if space.name in self.models.opened else None
            if embedder is None or not (embedder.space.latin_only or space.state in (FOREIGN, ENGLISH)):
                return None
            self.models.examples[space.name] = embedder.embed_passages(lines_of("world_questions"))
        return self.models.examples[space.name]

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
        examples: the vectors of questions about the world, likewise.
    """

    threads: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, _AT_ONCE, "embed"))
    opened: dict[str, tuple[Embedder, QueryVectors]] = field(default_factory=dict)
    examples: dict[str, Vectors] = field(default_factory=dict)


@contextmanager
def attempted(part: str, notes: list[str], note: str = "Searched without {part}: {error}.") -> Iterator[None]:
    """A part of a search that may fail, which is logged and noted: memory must never stop a chat."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the other parts have an answer; the failure is logged and shown
        name = type(error).__name__
        _log.warning("search_part_failed", part=part, error_class=name)
        notes.append(note.format(part=part, error=name))
