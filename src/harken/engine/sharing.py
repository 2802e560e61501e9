"""Sharing in a team: copies of what was recorded, put into another space with whose words they are, and taken back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from harken.engine.engine import Harken
from harken.engine.team_memory import CONVERSATION, EXCHANGE, MESSAGE, MemberStore
from harken.errors import NotFoundError, UsageError
from harken.model.conversations import KEPT_FOLDERS, Conversation, Event, Message, SavedRecord
from harken.model.experiences import EXPERIENCE, ExperienceStatus
from harken.model.team import Access, KeyScope, RecordOrigin, Speaker, TeamSpace
from harken.record.forget import plan_conversations, plan_messages
from harken.record.recorder import Batch, NewConversation, NewMessage, Recorder
from harken.storage.conversations import find_conversation, find_message, messages_of, messages_of_exchange, resolve_uid
from harken.storage.ports import Transaction
from harken.storage.positions import conversations_of_messages
from harken.storage.records.rows import MEMORY, find_kept, kept_times, kept_uid
from harken.storage.team.origins import copies_of, drop_origins, note_origins, origins_of

if TYPE_CHECKING:
    from harken.storage.team.control import ControlTables

_SAVED = (MEMORY, EXPERIENCE)


@dataclass(frozen=True, slots=True)
class Named:
    """Something that an id names, and the space that it stands in."""

    space: TeamSpace
    kind: str
    uid: str


@dataclass(frozen=True, slots=True)
class Sharing:
    """Copies things between spaces.

    Args:
        opened: opens a space.
    """

    control: ControlTables
    opened: Callable[[TeamSpace], Harken]
    now: Callable[[], datetime]

    def share(self, by: Speaker, uid: str, to: str) -> str:
        """See `Team.share`."""
        by.require(KeyScope.READ, KeyScope.REMEMBER)
        target = by.space(to, Access.WRITE)
        named = self._named(by, uid)
        if named.space.id == target.id:
            raise UsageError(f"{named.uid} stands in {target.name} already.")
        with self.control.reading(by.principal.team) as tx:
            kind = CONVERSATION if named.kind == EXCHANGE else named.kind
            copies = copies_of(tx, named.space.id, [named.uid])
            said = origins_of(tx, [named.uid])
        known = (copy.uid for copy in copies if copy.space == target.id and copy.kind == kind)
        # One that was forgotten there is shared anew.
        if copy := next((uid for uid in known if find_named(self.opened(target), target, uid)), None):
            return copy
        origin = said.get((named.space.id, named.uid))
        whose = origin.origin.principal if origin else (named.space.owner or "")
        is_saved = named.kind in _SAVED
        copy, uids = (self._copy_saved if is_saved else self._copy_said)(by, named, target, whose)
        # Whoever forgets something while it is copied does not see its copy.
        with self.opened(named.space).store.reading() as tx:
            left = kept_times(tx, named.kind, uids) if is_saved else conversations_of_messages(tx, uids)
        if gone := [uid for uid in uids if uid not in left]:
            self.forget_copies(target.team, self.copies(target.team, named.space.id, gone))
        if not left:
            raise NotFoundError(f"Nothing is left of {named.kind} {named.uid}: it was forgotten.")
        return copy

    def _named(self, by: Speaker, uid: str) -> Named:
        """What an id, or the beginning of one, names in the first space that has it, one's own first.

        Raises:
            NotFoundError: it names nothing that they may read, or more than one thing.
        """
        for space, _ in by.spaces:
            if found := find_named(self.opened(space), space, uid):
                if len(found) > 1:
                    raise NotFoundError(f"'{uid}' is the beginning of several ids. Give a whole one.")
                return found[0]
        raise NotFoundError(f"'{uid}' names nothing. Ids are printed by: harken search QUERY")

    def _copy_said(self, by: Speaker, named: Named, target: TeamSpace, whose: str) -> tuple[str, Sequence[str]]:
        with self.opened(named.space).store.reading() as tx:
            messages = _said(tx, named)
            head = find_conversation(tx, messages[0].conversation_uid) if messages else None
        if head is None:
            return "", ()
        with self.control.reading(by.principal.team) as control:
            authors = origins_of(control, [message.uid for message in messages])
        copies = list[str]()

        def note(tx: Transaction, events: Sequence[Event]) -> None:
            """Note of each copy what it is of, in the transaction that writes it."""
            moment, shared = self.now(), (by.principal.id, named.space.id)
            made = [event for event in events if isinstance(event, Message)]
            copies.extend(copy.uid for copy in made)
            found = [
                RecordOrigin(target.id, event.uid, CONVERSATION, whose, moment, *shared, named.uid)
                for event in events
                if isinstance(event, Conversation)
            ]
            for copy, message in zip(made, messages, strict=True):
                author = authors.get((named.space.id, message.uid))
                said_by = author.origin.principal if author else whose
                found.append(RecordOrigin(target.id, copy.uid, MESSAGE, said_by, moment, *shared, message.uid))
            note_origins(tx, target.team, found)

        conversation = NewConversation(
            head.channel, f"shared-{token_hex(8)}", head.title, head.project, messages[0].created_at
        )
        batch = Batch(conversation, [_copied(each) for each in messages], finish=True, is_import=True)
        said = {origin.origin.principal for (space, _), origin in authors.items() if space == named.space.id}
        self._recorder(by, target, {whose, *said}, note).record([batch])
        return copies[0] if named.kind == MESSAGE else conversation.uid, [message.uid for message in messages]

    def _copy_saved(self, by: Speaker, named: Named, target: TeamSpace, whose: str) -> tuple[str, Sequence[str]]:
        with self.opened(named.space).store.reading() as tx:
            kept = find_kept(tx, named.kind, [named.uid]).get(named.uid)
        if kept is None:
            return "", ()
        fields: dict[str, Any] = {**(kept.fields or {})}
        if named.kind == EXPERIENCE and fields.get("status") == ExperienceStatus.ACTIVE.value:
            raise UsageError("This experience is still open. Share it when it is resolved.")
        if named.kind == MEMORY:
            fields = {**fields, "supersedes": [], "superseded_by": None}

        def note(tx: Transaction, events: Sequence[Event]) -> None:
            moment, shared = self.now(), (by.principal.id, named.space.id, named.uid)
            found = [
                RecordOrigin(target.id, event.uid, named.kind, whose, moment, *shared)
                for event in events
                if isinstance(event, SavedRecord)
            ]
            note_origins(tx, target.team, found)

        recorder = self._recorder(by, target, {whose}, note)
        copy = SavedRecord(named.kind, recorder.new_uid(), self.now(), fields, kept.project)
        with recorder.saving(named.kind) as records:
            records.save(copy)
        return copy.uid, [named.uid]

    def _recorder(
        self, by: Speaker, space: TeamSpace, said_by: set[str], note: Callable[[Transaction, Sequence[Event]], None]
    ) -> Recorder:
        recorder = self.opened(space).recorder
        authors = said_by - {""} if by.is_operator else {by.principal.id, *said_by} - {""}
        return replace(recorder, store=MemberStore(recorder.store, space, Access.WRITE, tuple(authors)), written=note)

    def unshare(self, by: Speaker, uid: str, space: str | None = None) -> list[str]:
        """See `Team.unshare`."""
        by.require(KeyScope.FORGET)
        only = by.space(space) if space is not None else None
        named = self._named(by, uid)
        with self.control.reading(by.principal.team) as tx:
            itself = origins_of(tx, [named.uid]).get((named.space.id, named.uid))
            copies = [itself.origin] if itself and itself.origin.sharer else copies_of(tx, named.space.id, [named.uid])
        mine = [one for one in copies if (only is None or one.space == only.id) and self._may_take_back(by, one)]
        if not mine:
            raise NotFoundError(f"There is no copy of {named.uid} that you may take back. See: harken show {named.uid}")
        return self.forget_copies(by.principal.team, mine)

    def _may_take_back(self, by: Speaker, copy: RecordOrigin) -> bool:
        """Who said it, who shared it, and who administers the space may take a copy back, by a key that reaches it."""
        if by.key is not None and by.key.spaces is not None and copy.space not in by.key.spaces:
            return False
        rights = {space.id: access for space, access in by.spaces}
        is_admin = rights.get(copy.space, Access.READ).allows(Access.ADMIN)
        return is_admin or by.principal.id in (copy.sharer, copy.principal)

    def copies(self, team: str, space: str, uids: Collection[str]) -> list[RecordOrigin]:
        """The copies that there are of records of a space, wherever they are."""
        with self.control.reading(team) as tx:
            return copies_of(tx, space, uids)

    def forget_copies(self, team: str, copies: Sequence[RecordOrigin]) -> list[str]:
        """Forget copies for good; their ids."""
        gone: list[str] = []
        for space_id in dict.fromkeys(copy.space for copy in copies):
            mine = [copy for copy in copies if copy.space == space_id]
            harken = self.opened(TeamSpace(space_id, team, ""))
            with harken.store.reading() as tx:
                whole = [copy.uid for copy in mine if copy.kind == CONVERSATION and find_conversation(tx, copy.uid)]
                inside = [message.uid for uid in whole for message in messages_of(tx, uid)]
                plan = plan_conversations(tx, whole, self.now()) if whole else None
            if plan is not None:
                harken.maintenance.forget(plan)
            gone += [*whole, *forget_in(harken, mine)]
            with self.control.writing(team) as control:
                drop_origins(control, space_id, [*inside, *(copy.uid for copy in mine)])
        return gone


def find_named(harken: Harken, space: TeamSpace, uid: str) -> list[Named]:
    """Everything in a space that an id, the beginning of one or a name names, and that can be shared."""
    with harken.store.reading() as tx:
        found = [Named(space, kind, whole) for kind, whole in resolve_uid(tx, uid)]
        for source in _SAVED:
            try:
                found.append(Named(space, source, kept_uid(tx, source, uid)))
            except NotFoundError:
                continue
    return [one for one in found if one.uid == uid] or found


def _said(tx: Transaction, named: Named) -> list[Message]:
    if named.kind == MESSAGE:
        message = find_message(tx, named.uid)
        return [message] if message else []
    return messages_of_exchange(tx, named.uid) if named.kind == EXCHANGE else messages_of(tx, named.uid)


def _copied(message: Message) -> NewMessage:
    said = message.role, message.text, message.type, message.created_at, message.author, message.trust
    return NewMessage(*said, message.call_id, message.tool_name)


def forget_in(harken: Harken, found: Sequence[RecordOrigin]) -> list[str]:
    """Forget records of a space by what is known of their origins: those that are there still; their ids.

    A conversation of which nothing else is left goes with its messages.
    """
    gone: list[str] = []
    for source in KEPT_FOLDERS:
        uids = [each.uid for each in found if each.kind == source]
        with harken.store.reading() as tx:
            uids = list(find_kept(tx, source, uids)) if uids else []
        if uids:
            harken.recorder.forget(source, uids)
            gone += uids
    said = [each.uid for each in found if each.kind == MESSAGE]
    with harken.store.reading() as tx:
        places = conversations_of_messages(tx, said) if said else {}
        whole = [each.uid for each in found if each.kind == CONVERSATION and find_conversation(tx, each.uid)]
        plan = plan_messages(tx, list(places), harken.recorder.now()) if places else None
    if plan is not None:
        harken.maintenance.forget(plan)
        gone += places
    with harken.store.reading() as tx:
        emptied = [uid for uid in {*places.values(), *whole} if not messages_of(tx, uid, 1)]
        plan = plan_conversations(tx, emptied, harken.recorder.now()) if emptied else None
    if plan is not None:
        harken.maintenance.forget(plan)
        gone += emptied
    return list(dict.fromkeys(gone))
