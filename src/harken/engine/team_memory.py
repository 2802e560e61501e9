"""The memory of a team as one speaker sees it: what they write goes to one space, what they read comes from several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.engine.engine import Harken
from harken.engine.parts import lazy_part
from harken.errors import SpaceReadOnlyError
from harken.model.conversations import (
    Conversation,
    CoreFact,
    Event,
    Labelled,
    Message,
    MessageType,
    Role,
    SavedRecord,
    Trust,
)
from harken.model.marks import Rated
from harken.model.team import Access, Speaker, TeamSpace
from harken.storage.ports import Store, Transaction
from harken.storage.team.origins import RecordOrigin, note_origins

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


class ReadOnlySpace:
    """A store of a space in which somebody may only read."""

    def __init__(self, store: Store, space: TeamSpace) -> None:
        self._store = store
        self._space = space

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def writing(self, of: Sequence[str] | None = None) -> AbstractContextManager[Transaction]:
        """Refused.

        Raises:
            SpaceReadOnlyError: always.
        """
        raise SpaceReadOnlyError(Access.WRITE.value, self._space.name)


@dataclass(frozen=True, slots=True)
class Seat:
    """A speaker in the space that they write to.

    Attributes:
        access: what they may do there.
    """

    speaker: Speaker
    space: TeamSpace
    access: Access

    def note(self, tx: Transaction, events: Sequence[Event]) -> None:
        """Note who has brought records into a shared space, in the transaction that writes them."""
        if self.space.is_private or self.speaker.is_operator:
            return
        whose = self.speaker.principal.id
        found = [
            RecordOrigin(self.space.id, uid, kind, whose, at)
            for event in events
            if (written := _written(event))
            for uid, kind, at in [written]
        ]
        note_origins(tx, self.space.team, found)


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
        for name in (*names, "_removed", "run_time", "_journal"):
            setattr(self, name, opened[name])
        if not seat.access.allows(Access.WRITE):
            self.store = ReadOnlySpace(base.store, seat.space)
        self.seat = seat
        self.reach = reach
        self._base = base

    @lazy_part
    def recorder(self) -> Recorder:
        """Writes what is said, and notes in a shared space who has brought it."""
        from harken.record.recorder import Recorder

        base = self._base.recorder
        ports = self.store, base.journal, base.redactor, base.config, base.min_message_tokens
        return Recorder(*ports, wake=base.wake, now=base.now, written=self.seat.note)

    @lazy_part
    def spaces(self) -> Spaces:
        """The embedding models of the space."""
        return self._base.spaces

    @lazy_part
    def background(self) -> Background:
        """The workers of the space."""
        return self._base.background

    @lazy_part
    def _redactor(self) -> Redactor:
        return self._base._redactor

    @lazy_part
    def _language_model(self) -> LanguageModel:
        return self._base._language_model

    @lazy_part
    def _searcher(self) -> Searcher:
        from harken.search.session import SearchSessions, Union

        base, reach = self._base._searcher, self.reach
        known = base.sessions
        ports = known.config, known.embedder_of, known.now, known.models, self.seat.space.id
        union = None
        if reach is not None:
            union = Union(lambda: [each._searcher.sessions for _, each in reach.others()], reach.threads, reach.whose)
        return replace(base, sessions=SearchSessions(self.store, *ports, union, known.known))

    @lazy_part
    def memories(self) -> Memories:
        """What was saved on purpose, in all spaces that may be read."""
        from harken.engine.team_lookups import TeamMemories
        from harken.sources.memories.duplicates import MeaningComparison
        from harken.sources.memories.memories import Memories

        ports = self.store, self.recorder, self._search_here, MeaningComparison(self.store, self.spaces)
        return Memories(*ports) if self.reach is None else TeamMemories(*ports, self.reach)

    def _search_here(self, query: str, scope: SearchScope, limit: int, mode: str, **seen: Any) -> SearchResult:
        with self._searcher.sessions.open(self._seen_from(seen.get("directory"), seen.get("conversation"))) as session:
            return self._searcher.here(query, scope, limit, mode, None, session)

    def _search_indexed(self, query: str, scope: SearchScope, limit: int, mode: str) -> SearchResult:
        return self._search_here(query, scope, limit, mode)

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
        from harken.engine.team_lookups import TeamMaintenance

        ports = self.store, self._journal, lambda: self.recorder, self.spaces, self.home, self._now, self._removed
        return TeamMaintenance(*ports, reach=self.reach)

    def show(self, uid: str, reach: int = 5) -> Surroundings:
        """See `Harken.show`; what is not here may be in another space that may be read."""
        from harken.engine.team_lookups import told_surroundings

        if self.reach is None:
            return Harken.show(self, uid, reach)
        space, found = self.reach.first(lambda: Harken.show(self, uid, reach), lambda there: there.show(uid, reach))
        return told_surroundings(self.reach, space, found)

    def record_message(
        self,
        conversation: str,
        role: Role | str,
        text: str,
        *,
        channel: str = "library",
        author: str | None = None,
        type: MessageType | str = MessageType.TEXT,
        call_id: str | None = None,
        tool_name: str | None = None,
        directory: str | Path | None = None,
        trust: Trust | None = None,
        metadata: Mapping[str, Any] | None = None,
        once: str | None = None,
    ) -> Message:
        """Record one message; in a shared space, a person's is said by whoever's key it is."""
        if not self.seat.space.is_private and Role.of(role) is Role.USER:
            name = self.seat.speaker.principal.name
            author = name if author in (None, name) else f"{author}, by {name}"
        given: dict[str, Any] = {"call_id": call_id, "tool_name": tool_name, "directory": directory, "trust": trust}
        options = {"channel": channel, "author": author, "type": type, "metadata": metadata, "once": once, **given}
        return super().record_message(conversation, role, text, **options)

    @property
    def settings(self) -> Settings:
        """The settings of the space."""
        return self._base.settings

    def _current(self) -> Settings:
        return self._base.settings

    def close(self) -> None:
        """No-op: what is open is the team's."""
