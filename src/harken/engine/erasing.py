"""Taking a person's words out of a team: a file of them first, then every space, key and name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.engine.engine import Harken
from harken.engine.sharing import forget_in
from harken.engine.team_memory import CONVERSATION, CORE, LABEL, LABELLED, MESSAGE, RATED
from harken.errors import NotFoundError, UsageError
from harken.model.arguments import SECTIONS
from harken.model.conversations import KEPT_FOLDERS, Labelled, Titled
from harken.model.team import COMMON, Principal, RecordOrigin, TeamSpace
from harken.record.forget import note_scrub
from harken.storage.conversations import find_conversation, find_message
from harken.storage.ports import rows_by
from harken.storage.records.marks import drop_ratings, own_label
from harken.storage.records.rows import find_kept
from harken.storage.state import core_facts, drop_everything
from harken.storage.tables import ratings
from harken.storage.team import people
from harken.storage.team.keys import drop_keys, end_keys
from harken.storage.team.origins import brought_by, drop_origins, let_go
from harken.storage.team.requests import drop_requests
from harken.storage.team.spaces import drop_grants_of, drop_space, list_spaces

if TYPE_CHECKING:
    from harken.storage.team.control import ControlTables

SHARED_SUFFIX = ".shared.jsonl"


@dataclass(frozen=True, slots=True)
class Erased:
    """What erasing a principal took away.

    Attributes:
        spaces: how many private spaces, whole.
        records: how many records in shared spaces were theirs, copies of their words among them.
    """

    principal: str
    spaces: int
    records: int

    def view(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"erased": self.principal, "spaces": self.spaces, "records": self.records}


@dataclass(frozen=True, slots=True)
class ExportedPerson:
    """The files with everything that was a principal's.

    Attributes:
        private: an export of their private space, which `harken import jsonl` takes.
        shared: their words in shared spaces, a line of JSON each; None where there are none.
    """

    private: Path
    shared: Path | None
    messages: int
    shared_records: int

    def view(self) -> dict[str, Any]:
        """Return it as JSON."""
        files = {"file": str(self.private), "shared_file": str(self.shared) if self.shared else None}
        return {**files, "messages": self.messages, "shared": self.shared_records}


@dataclass(frozen=True, slots=True)
class Erasing:
    """Exports and erases principals.

    Args:
        opened: opens a space.
        closed: lets an open space go.
    """

    control: ControlTables
    opened: Callable[[TeamSpace], Harken]
    closed: Callable[[TeamSpace], None]
    now: Callable[[], datetime]

    def export(self, principal: Principal, target: Path) -> ExportedPerson:
        """Write everything of a principal to new files: their private space, and their words in shared ones.

        Raises:
            UsageError: a file exists.
            StoreError: it cannot be written.
        """
        beside = target.with_name(target.name + SHARED_SUFFIX)
        if beside.exists():
            raise UsageError(f"{beside} exists. Name a file that does not.")
        private, found = self._of(principal)
        if not private:
            raise NotFoundError(f"{principal.name} has no private space.")
        done = self.opened(private[0]).maintenance.export(target)
        lines = [line for origin in found if (line := self._line(principal, origin))]
        if lines:
            beside.touch(mode=0o600)
            beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return ExportedPerson(target, beside if lines else None, done.messages, len(lines))

    def _of(self, principal: Principal) -> tuple[list[TeamSpace], list[RecordOrigin]]:
        """A principal's private spaces, and what is theirs in shared ones."""
        with self.control.reading(principal.team) as tx:
            spaces = list_spaces(tx)
            found = [each for each in brought_by(tx, principal.id) if each.principal == principal.id]
        private = [space for space in spaces if space.owner == principal.id]
        shared = {space.id for space in spaces} - {space.id for space in private}
        return private, [each for each in found if each.space in shared]

    def _line(self, principal: Principal, origin: RecordOrigin) -> str:
        """Somebody's words in a shared space, as a line of JSON; empty where they are gone."""
        with self.opened(TeamSpace(origin.space, principal.team, "")).store.reading() as tx:
            facts: dict[str, Any] = {}
            if origin.kind == MESSAGE and (message := find_message(tx, origin.uid)):
                facts = {"text": message.text, "conversation": message.conversation_uid}
            elif origin.kind in KEPT_FOLDERS:
                kept = find_kept(tx, origin.kind, [origin.uid]).get(origin.uid)
                facts = {"fields": dict(kept.fields or {})} if kept else {}
            elif origin.kind == CORE:
                facts = next(({"value": fact.value} for fact in core_facts(tx) if fact.uid == origin.uid), facts)
            elif origin.kind == LABELLED and (label := own_label(tx, origin.uid.removesuffix(LABEL)).label):
                facts = {"title": label.title, "tags": list(label.tags)}
            elif origin.kind == RATED:
                said = rows_by(tx, ratings.c.uid, [origin.uid], ratings.c.verdict, ratings.c.question)
                facts = next(({"verdict": verdict, "question": question} for verdict, question in said), facts)
        head = {"space": origin.space, "kind": origin.kind, "id": origin.uid, "at": origin.at.isoformat()}
        return json.dumps({**head, **facts}, ensure_ascii=False) if facts else ""

    def erase(self, principal: Principal) -> Erased:
        """Erase a principal: their keys, then their words, then their name; what breaks off can be begun again."""
        with self.control.writing(principal.team) as tx:
            end_keys(tx, principal.id, self.now())
            people.put_member(tx, people.ERASED, principal.id, True)
            shared = [space for space in list_spaces(tx) if not space.is_private]
        for space in shared:
            # Who was let in before ends first; whoever comes later is refused.
            with self.opened(space).store.writing():
                pass
        private, found = self._of(principal)
        count = 0
        for space_id in dict.fromkeys(each.space for each in found):
            mine = [each for each in found if each.space == space_id]
            count += len(self._take_out(self.opened(TeamSpace(space_id, principal.team, "")), mine))
        for space in private:
            self.drop(space)
        with self.control.writing(principal.team) as tx:
            for space in private:
                drop_origins(tx, space.id)
                drop_space(tx, space.id)
            drop_grants_of(tx, principal.id)
            drop_keys(tx, principal.id)
            let_go(tx, principal.id)
            # Waits for requests that are about to keep their answers.
            people.drop_principal(tx, principal.id)
            drop_requests(tx, principal.id)
        return Erased(principal.name, len(private), count)

    def _take_out(self, harken: Harken, mine: Sequence[RecordOrigin]) -> list[str]:
        """Take somebody's words out of a shared space; the ids of the records that are gone."""
        gone = forget_in(harken, mine)
        # What was decided of a rule has no words.
        facts = [found for each in mine if each.kind == CORE and (found := each.uid.partition("/"))[0] in SECTIONS]
        for section, _, key in facts:
            if any(fact.key == key for fact in harken.core.list(section)):
                harken.core.delete(section, key)
                gone.append(f"{section}/{key}")
        verdicts = [each.uid for each in mine if each.kind == RATED]
        if verdicts:
            with harken.store.writing() as tx:
                drop_ratings(tx, uids=verdicts)
        left = list(_renamed(harken, mine))
        if left:
            harken.recorder.admit([event.conversation_uid for event in left], lambda _tx, _ingest: left)
        return gone

    def drop(self, space: TeamSpace) -> None:
        """Delete every row of a space; a note in the common one has the server free them."""
        with self.opened(space).store.writing() as tx:
            drop_everything(tx)
        with self.opened(TeamSpace(COMMON, space.team, COMMON)).store.writing() as tx:
            note_scrub(tx)
        self.closed(space)


def _renamed(harken: Harken, mine: Sequence[RecordOrigin]) -> Iterator[Titled | Labelled]:
    """Take titles and tags away that somebody has given to conversations in which others have said something."""
    now = harken.recorder.now()
    with harken.store.reading() as tx:
        for each in mine:
            uid = each.uid.removesuffix(LABEL)
            if each.kind not in (CONVERSATION, LABELLED) or find_conversation(tx, uid) is None:
                continue
            yield Titled(uid, "", now) if each.kind == CONVERSATION else Labelled(uid, now)
