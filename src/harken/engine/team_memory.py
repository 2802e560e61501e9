"""The memory of a team as one speaker sees it: what they write goes to one space, what they read comes from several."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from harken.engine.engine import Harken
from harken.engine.parts import lazy_part
from harken.errors import ForeignRecordError, SpaceReadOnlyError
from harken.model.conversations import Conversation, CoreFact, Event, Labelled, Message, Role, SavedRecord, Tombstone
from harken.model.marks import Rated
from harken.model.team import Access, KeyScope, RecordOrigin, Speaker, TeamSpace
from harken.storage.ports import Store, Transaction
from harken.storage.positions import conversations_of_messages, message_counts, messages_within
from harken.storage.records.marks import own_label
from harken.storage.records.rows import TOPIC, kept_times
from harken.storage.records.rules import RULES
from harken.storage.state import core_facts
from harken.storage.team.origins import NamedOrigin, drop_origins, note_origins, origins_of
from harken.storage.team.spaces import foresee_standing, list_grants, require_standing
from harken.storage.team.tables import TeamTransaction

if TYPE_CHECKING:
    from harken.config.settings import Settings
    from harken.context.rules import Rules
    from harken.engine.archive import Archive
    from harken.engine.maintenance import Maintenance
    from harken.engine.team_lookups import Reach
    from harken.jobs.spaces import Spaces
    from harken.jobs.spend import LanguageModel
    from harken.jobs.workers import Background
    from harken.model.conversations import SearchScope
    from harken.model.lookups import SearchResult, Surroundings
    from harken.record.recorder import Recorder
    from harken.redact.redactor import Redactor
    from harken.search.search import Searcher
    from harken.sources.experiences.experiences import Experiences
    from harken.sources.memories.memories import Memories
    from harken.sources.searches import SourceSearcher


# What is noted of a conversation's label, beside the conversation: its id, and this.
LABEL = "#label"
CORE, LABELLED, RATED = "core", "labelled", "rated"
CONVERSATION, EXCHANGE, MESSAGE = "conversation", "exchange", "message"


@dataclass(frozen=True, slots=True)
class MemberStore:
    """A store of a space as members write to it.

    Args:
        authors: the ids of those whose words are written; of the operator none.
        administrator: who changes the space's settings, which takes the right and the scope `admin`; None for all else.
    """

    store: Store
    space: TeamSpace
    access: Access
    authors: tuple[str, ...]
    administrator: Speaker | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    @contextmanager
    def writing(self, of: Sequence[str] | None = None) -> Iterator[Transaction]:
        """A transaction that has locked what it is to write.

        Raises:
            ScopeError: the member has not the right (`SpaceReadOnlyError`), or their key not the scope.
            NotFoundError: an author or the space is being erased; nothing was written.
        """
        needed = Access.ADMIN if self.administrator else Access.WRITE
        if not self.access.allows(needed):
            raise SpaceReadOnlyError(needed.value, self.space.name)
        if self.administrator:
            self.administrator.require(KeyScope.ADMIN)
        with self.store.writing(of) as tx:
            team = TeamTransaction(tx.connection, self.space.team)
            if self.authors:
                foresee_standing(team, self.space.id, self.authors)
            yield tx
            if self.authors:
                require_standing(team, self.space.id, self.authors)


@dataclass(frozen=True, slots=True)
class Seat:
    """A speaker in the space that they write to.

    Attributes:
        access: what they may do there.
    """

    speaker: Speaker
    space: TeamSpace
    access: Access

    @property
    def is_unmarked(self) -> bool:
        """Whether nobody's name is noted of what is written."""
        return self.space.is_private or self.speaker.is_operator

    def others(self, tx: Transaction, uids: Collection[str]) -> dict[str, NamedOrigin | None]:
        """Those of the records that somebody else has brought; None of what nobody knows, for who administers nothing.

        A copy was brought by whoever said it and by whoever shared it.
        """
        if self.is_unmarked or not uids:
            return {}
        known, me = origins_of(TeamTransaction(tx.connection, self.space.team), uids), self.speaker.principal.id
        found = {uid: known.get((self.space.id, uid)) for uid in uids}
        return {
            uid: named
            for uid, named in found.items()
            if (me not in (named.origin.principal, named.origin.sharer) if named else not self.administers)
        }

    @property
    def administers(self) -> bool:
        """Whether they may change anything in the space."""
        return self.access.allows(Access.ADMIN)

    def require_own(self, tx: Transaction, events: Sequence[Event]) -> None:
        """Pass if events change or forget nothing that others have brought, or the speaker administers the space.

        Raises:
            ForeignRecordError: names who may.
        """
        if self.is_unmarked or self.administers or not (others := self.others(tx, list(_changed(tx, events)))):
            return
        uid, named = next(iter(others.items()))
        team = TeamTransaction(tx.connection, self.space.team)
        admins = [grant.name for grant in list_grants(team, self.space.id) if grant.access is Access.ADMIN]
        raise ForeignRecordError(uid, self.space.name, named.principal or named.sharer if named else "", admins)

    def note(self, tx: Transaction, events: Sequence[Event]) -> None:
        """Note who has brought records into a shared space, in the transaction that writes them."""
        if self.is_unmarked:
            return
        gone = [event.uid for event in events if isinstance(event, CoreFact) and event.value is None]
        if gone:
            drop_origins(TeamTransaction(tx.connection, self.space.team), self.space.id, gone)
        whose = self.speaker.principal.id
        found = [
            RecordOrigin(self.space.id, uid, kind, whose, at)
            for event in events
            if (written := _written(event))
            for uid, kind, at in [written]
        ]
        note_origins(tx, self.space.team, found)


def _changed(tx: Transaction, events: Sequence[Event]) -> Iterator[str]:
    """The ids of what is there and would be changed or forgotten; not of what is nobody's, as topics."""
    saved = [event for event in events if isinstance(event, SavedRecord) and event.source != TOPIC]
    for source in {event.source for event in saved}:
        yield from kept_times(tx, source, [event.uid for event in saved if event.source == source])
    graves = [event for event in events if isinstance(event, Tombstone)]
    if graves:
        yield from conversations_of_messages(tx, [grave.uid for grave in graves if grave.kind == MESSAGE])
        whole = list(message_counts(tx, [grave.uid for grave in graves if grave.kind == CONVERSATION]))
        yield from [*whole, *messages_within(tx, whole)]
    for event in events:
        if isinstance(event, Labelled):
            before = own_label(tx, event.conversation_uid).label or Labelled(event.conversation_uid, event.at)
            # To add tags takes nothing from anybody.
            if (before.title, before.project) != (event.title, event.project) or set(before.tags) - set(event.tags):
                yield event.conversation_uid
        elif isinstance(event, CoreFact) and event.section == RULES:
            yield event.key.rpartition(".")[0]
        elif isinstance(event, CoreFact) and any(fact.uid == event.uid for fact in core_facts(tx, event.section)):
            yield event.uid


def _written(event: Event) -> tuple[str, str, datetime] | None:
    """The id, the kind and the moment of what has somebody's words; None of what has none."""
    if isinstance(event, Message | Conversation):
        return event.uid, type(event).__name__.lower(), event.created_at
    if isinstance(event, SavedRecord) and event.fields is not None:
        return event.uid, event.source, event.at
    if isinstance(event, CoreFact) and event.value is not None:
        return event.uid, CORE, event.at
    if isinstance(event, Labelled):
        return event.conversation_uid + LABEL, LABELLED, event.at
    return (event.uid, RATED, event.at) if isinstance(event, Rated) else None


class TeamMemory(Harken):
    """The memory of a space as one speaker sees it; it shares everything that is open with the space's own.

    Attributes:
        seat: who speaks, and where they write.
        reach: the other spaces that they may read; None where this is one of those.
    """

    def __init__(self, base: Harken, seat: Seat, reach: Reach | None = None) -> None:
        opened = vars(base)
        names = ("_opening", "_env", "loaded", "_now", "_given_embedder", "_reranker", "_beside", "store", "replayed")
        for name in (*names, "_removed", "_journal"):
            setattr(self, name, opened[name])
        authors = () if seat.speaker.is_operator else (seat.speaker.principal.id,)
        self.store: Any = MemberStore(base.store, seat.space, seat.access, authors)
        # A space's settings hold for everybody in it: what is embedded, which model answers, what it may cost.
        self.run_time = replace(base.run_time, store=replace(self.store, administrator=seat.speaker))
        self.seat = seat
        self.reach = reach
        self._base = base

    @lazy_part
    def recorder(self) -> Recorder:
        """Writes what is said, and notes in a shared space who has brought it."""
        from harken.record.recorder import Recorder

        base = self._base.recorder
        ports = self.store, base.journal, base.redactor, base.config, base.min_message_tokens
        rights: Any = {"changing": self.seat.require_own, "written": self.seat.note, "others": self.seat.others}
        member = "" if self.seat.is_unmarked else self.seat.speaker.principal.id
        return Recorder(*ports, wake=base.wake, now=base.now, member=member, **rights)

    # The models and the workers are the space's own, whoever speaks.
    spaces: lazy_part[Spaces] = lazy_part(lambda memory: memory._base.spaces)
    background: lazy_part[Background] = lazy_part(lambda memory: memory._base.background)
    _redactor: lazy_part[Redactor] = lazy_part(lambda memory: memory._base._redactor)
    _language_model: lazy_part[LanguageModel] = lazy_part(lambda memory: memory._base._language_model)

    @lazy_part
    def _searcher(self) -> Searcher:
        from harken.search.session import SearchSessions, Union

        base, reach = self._base._searcher, self.reach
        known = base.sessions
        ports = known.config, known.embedder_of, known.now, known.models, self.seat.space.id
        union = None
        if reach is not None:
            union = Union(lambda: [each._searcher.sessions for _, each in reach.others()], reach.threads, reach.whose)
        return replace(base, sessions=SearchSessions(self.store, *ports, union, known.known, known.has_model))

    @lazy_part
    def memories(self) -> Memories:
        """What was saved on purpose, in all spaces that may be read."""
        from harken.engine.team_lookups import TeamMemories
        from harken.sources.memories.memories import Memories

        # The space's own comparison: it has the vectors of what waits to be embedded, from one request to the next.
        ports = self.store, self.recorder, self._search_here, self._base.memories.compare
        return Memories(*ports) if self.reach is None else TeamMemories(*ports, self.reach)

    def _search_here(self, query: str, scope: SearchScope, limit: int, mode: str, **seen: Any) -> SearchResult:
        with self._searcher.sessions.open(self._seen_from(seen.get("directory"), seen.get("conversation"))) as session:
            return self._searcher.here(query, scope, limit, mode, None, session)

    _search_indexed = _search_here

    @lazy_part
    def experiences(self) -> Experiences:
        """What was tried, shown in all spaces that may be read."""
        from harken.engine.team_lookups import TeamExperiences
        from harken.sources.experiences.experiences import Experiences

        ports = self.store, self.recorder
        return Experiences(*ports) if self.reach is None else TeamExperiences(*ports, self.reach)

    @lazy_part
    def sources(self) -> SourceSearcher:
        """Searches of every source beside conversations."""
        from harken.sources.searches import SourceSearcher

        sessions = self._searcher.sessions
        return SourceSearcher(self.store, self._search_here, open_session=sessions.open, search_in=self._searcher.port)

    @lazy_part
    def archive(self) -> Archive:
        """What was said, in all spaces that may be read."""
        from harken.engine.archive import Archive
        from harken.engine.team_lookups import TeamArchive

        return Archive(self.store) if self.reach is None else TeamArchive(self.store, self.reach)

    @lazy_part
    def rules(self) -> Rules:
        """What people have said to hold from now on."""
        from harken.context.rules import Rules
        from harken.engine.team_lookups import TeamRules

        return Rules(self.core) if self.reach is None else TeamRules(self.core, self.reach)

    @lazy_part
    def maintenance(self) -> Maintenance:
        """What keeps a space in order; its lists are of all spaces that may be read."""
        from harken.engine.maintenance import Maintenance
        from harken.engine.team_lookups import TeamMaintenance

        ports = self.store, self._journal, lambda: self.recorder, self.spaces, self.home, self._now, self._removed
        return Maintenance(*ports) if self.reach is None else TeamMaintenance(*ports, reach=self.reach)

    def show(self, uid: str, reach: int = 5) -> Surroundings:
        """See `Harken.show`; what is not here may be in another space that may be read."""
        from harken.engine.team_lookups import told_surroundings

        if self.reach is None:
            return Harken.show(self, uid, reach)
        space, found = self.reach.first(lambda: Harken.show(self, uid, reach), lambda there: there.show(uid, reach))
        return told_surroundings(self.reach, space, found)

    def _author(self, role: Role, named: str | None) -> str | None:
        """In a shared space, a person's words are said by whoever's key it is."""
        name = self.seat.speaker.principal.name
        if self.seat.space.is_private or role is not Role.USER:
            return named
        return name if named in (None, name) else f"{named}, by {name}"

    @property
    def settings(self) -> Settings:
        """The settings of the space."""
        return self._base.settings

    def _current(self) -> Settings:
        return self._base.settings

    def close(self) -> None:
        """No-op: what is open is the team's."""
