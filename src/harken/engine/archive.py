"""What was said, as people read it: page by page, by day; and what came back in it by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from harken.errors import NotFoundError
from harken.model.lookups import Injected, Injection, Page
from harken.model.marks import Rated, factor_of, in_words
from harken.storage.conversations import (
    find_conversation,
    find_message,
    messages_around,
    messages_of_exchange,
    read_page,
    resolve_uid,
)
from harken.storage.overview import count_exchanges
from harken.storage.past import list_injections, told_now
from harken.storage.ports import Store, Transaction
from harken.storage.records.marks import ratings_of
from harken.storage.records.recalls import asked_at
from harken.storage.workspace.files import count_parts

if TYPE_CHECKING:
    from harken.chat.details import DetailsPage
    from harken.model.arguments import DetailsWanted


@dataclass(frozen=True, slots=True)
class Archive:
    """Reads what was said and what was told; reached as `Harken.archive`."""

    store: Store

    def page(self, uid: str, offset: int | None = None, limit: int = 50) -> Page:
        """So many messages of a conversation from a place on; without one, from its beginning.

        The id may be that of one of its messages or exchanges, or the beginning of an id: then the page has it.

        Raises:
            NotFoundError: it names nothing, or more than one thing.
        """
        with self.store.reading() as tx:
            conversation_uid, place = _place_of(tx, uid)
            conversation = find_conversation(tx, conversation_uid)
            if conversation is None:
                raise NotFoundError(f"'{uid}' has no conversation. Repair the store: harken doctor --fix")
            begin = place // limit * limit if offset is None else offset
            messages, total = read_page(tx, conversation_uid, begin, limit)
            return Page(conversation, tuple(messages), begin, total)

    def details(self, wanted: DetailsWanted) -> DetailsPage:
        """A conversation or an exchange as text, by its id or the beginning of it.

        Raises:
            NotFoundError: there is none, or more than one; the error says what to give instead.
        """
        from harken.chat.details import read_details

        return read_details(self.store, wanted)

    def days(self, since: datetime | None = None) -> dict[date, int]:
        """How many questions were asked on each day of this machine's clock, since a moment; oldest first."""
        with self.store.reading() as tx:
            found = count_exchanges(tx, since)
        days: dict[date, int] = {}
        for begun, count in found:
            day = begun.astimezone().date()
            days[day] = days.get(day, 0) + count
        return days

    def recalls(
        self,
        limit: int = 20,
        before: datetime | None = None,
        conversation_uid: str | None = None,
        with_questions: bool = True,
    ) -> list[Injection]:
        """What came back by itself, newest first, with what was asked, and verdicts."""
        with self.store.reading() as tx:
            found = list_injections(tx, limit, before, conversation_uid)
            rated = ratings_of(tx, {item.uid for each in found for item in each.items})
            return [_judged(tx, each, rated, with_questions) for each in found]

    def injected(self, uids: Collection[str]) -> dict[str, Injected]:
        """What these ids name, as `recalls` tells of it; without those that name nothing."""
        with self.store.reading() as tx:
            return told_now(tx, uids)

    def indexed(self) -> list[tuple[str, str, int]]:
        """(project's key, source, parts that search sees) of everything that was indexed."""
        with self.store.reading() as tx:
            return count_parts(tx)


def _judged(tx: Transaction, found: Injection, rated: Mapping[str, Sequence[Rated]], asks: bool) -> Injection:
    """The same with what was said of each thing and, where it is asked for, with its question."""
    asked = asked_at(tx, found.conversation_uid, found.at) if asks else None
    items = [
        replace(item, rated=in_words(rated.get(item.uid, ())), factor=factor_of(rated.get(item.uid, ())))
        for item in found.items
    ]
    return replace(found, items=tuple(items), question=asked.text if asked else "")


def _place_of(tx: Transaction, uid: str) -> tuple[str, int]:
    """The conversation that an id names or is of, and how many of its messages stand before what it names."""
    found = resolve_uid(tx, uid)
    if len(found) != 1:
        what = "is the beginning of several ids" if found else "names nothing that was said"
        raise NotFoundError(f"'{uid}' {what}. Ids are printed by: harken search QUERY")
    kind, whole = found[0]
    if kind == "conversation":
        return whole, 0
    message = find_message(tx, whole) if kind == "message" else next(iter(messages_of_exchange(tx, whole)), None)
    if message is None:
        raise NotFoundError(f"Nothing is left of {kind} {whole}: it was forgotten.")
    return message.conversation_uid, messages_around(tx, message, 0)[1]
