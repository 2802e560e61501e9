"""What people say of what is recorded, as rows have it: verdicts, and labels of conversations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Select

from harken.model.conversations import Conversation, Event, Labelled, ProjectIdentity, Titled
from harken.model.marks import Rated, Verdict, factor_of, in_force
from harken.model.views import format_moment, parse_moment
from harken.storage.conversations import find_known
from harken.storage.ports import Transaction, batches, rows_by, rows_in
from harken.storage.projects import ensure_project, project_identity
from harken.storage.tables import (
    conversations,
    entries,
    entry_facets,
    exchanges,
    messages,
    ratings,
    reader,
    refers,
    writer,
)

TAG = "tag:"
_WORD = re.compile(r"\w+")
_LEAST, _MOST = 0.8, 1.2
_rating_row, _rated = writer(Rated, ratings, "verdict"), reader(Rated, verdict=Verdict)


def apply_ratings(tx: Transaction, events: Sequence[Rated]) -> None:
    """Keep verdicts, each once, and weigh what they are about anew."""
    known = find_known(tx, ratings, [event.uid for event in events])
    fresh = {event.uid: event for event in events if event.uid not in known}
    tx.insert(ratings, map(_rating_row, fresh.values()))
    weigh_anew(tx, {event.ref_uid for event in fresh.values()})


def ratings_of(tx: Transaction, ref_uids: Iterable[str]) -> dict[str, list[Rated]]:
    """The verdicts on each of these, oldest first; those without any are left out."""
    found: dict[str, list[Rated]] = {}
    for row in rows_by(tx, ratings.c.ref_uid, sorted(set(ref_uids))):
        found.setdefault(row.ref_uid, []).append(_rated(row))
    return {uid: sorted(each, key=lambda one: (one.at, one.uid)) for uid, each in found.items()}


def ratings_in(tx: Transaction, folder: str) -> list[Rated]:
    """The verdicts that a folder of the journal holds, oldest first."""
    rows = rows_by(tx, ratings.c.conversation_uid, [folder])
    return sorted(map(_rated, rows), key=lambda one: (one.at, one.uid))


def all_ratings(tx: Transaction) -> list[Rated]:
    """Every verdict that is in force."""
    told: dict[str, list[Rated]] = {}
    for row in tx.connection.execute(tx.select(ratings)):
        told.setdefault(row.ref_uid, []).append(_rated(row))
    return [one for each in told.values() for one in in_force(each)]


def drop_ratings(
    tx: Transaction, *, folder: str | None = None, ref_uids: Sequence[str] = (), uids: Sequence[str] = ()
) -> None:
    """Remove the verdicts of a folder, those on some things, or some by their ids."""
    if folder is not None:
        tx.delete(ratings, ratings.c.conversation_uid == folder)
    for batch in batches(ref_uids):
        tx.delete(ratings, ratings.c.ref_uid.in_(batch))
    for batch in batches(uids):
        judged = set(tx.connection.scalars(tx.select(ratings.c.ref_uid).where(ratings.c.uid.in_(batch))))
        tx.delete(ratings, ratings.c.uid.in_(batch))
        weigh_anew(tx, judged)


def weigh_anew_in(tx: Transaction, folders: Collection[str]) -> None:
    """Weigh what verdicts of these folders are about, whose entries have come back."""
    rows = rows_by(tx, ratings.c.conversation_uid, sorted(folders), ratings.c.ref_uid)
    weigh_anew(tx, {row.ref_uid for row in rows})


def weigh_anew(tx: Transaction, ref_uids: Collection[str]) -> None:
    """Have entries weigh what all verdicts on them, their exchange and their conversation say together."""
    if not ref_uids:
        return
    named, conditions = sorted(ref_uids), [(entries.c.ref_uid, sorted(ref_uids))]
    for column, table in ((entries.c.exchange_id, exchanges), (entries.c.conversation_id, conversations)):
        conditions.append((column, sorted({row.id for row in rows_by(tx, table.c.uid, named, table.c.id)})))
    rows = {row.id: row for column, values in conditions for row in rows_in(tx, _named(tx), column, values)}
    names = {row.id: {row.ref_uid, row.exchange_uid, row.conversation_uid} - {None} for row in rows.values()}
    factors = {uid: factor_of(each) for uid, each in ratings_of(tx, set().union(*names.values())).items()}
    changed: dict[float, list[int]] = {}
    for entry_id, uids in names.items():
        factor = 1.0
        for uid in uids:
            factor *= factors.get(uid, 1.0)
        factor = round(min(_MOST, max(_LEAST, factor)), 4)
        if factor != rows[entry_id].rated:
            changed.setdefault(factor, []).append(entry_id)
    for factor, entry_ids in changed.items():
        for batch in batches(entry_ids):
            tx.update(entries, tx.dialect.one_of(entries.c.id, batch), rated=factor)


def _named(tx: Transaction) -> Select[Any]:
    """Entries, with the ids of all that a verdict on them may be about."""
    exchange, conversation = exchanges.c.uid.label("exchange_uid"), conversations.c.uid.label("conversation_uid")
    return tx.select(entries.c.id, entries.c.ref_uid, entries.c.rated, exchange, conversation).select_from(
        entries.outerjoin(exchanges, refers(entries.c.exchange_id, exchanges)).outerjoin(
            conversations, refers(entries.c.conversation_id, conversations)
        )
    )


@dataclass(frozen=True, slots=True)
class Objection:
    """A verdict that an entry was wrong, and what it was wrong for.

    Attributes:
        question: what was asked; empty where it was wrong whatever is asked.
        question_entry: the entry of the message that asked; None where it has none, or somebody has said the question.
    """

    entry_id: int
    question: str
    question_entry: int | None = None


def objections(tx: Transaction, entry_ids: Sequence[int]) -> list[Objection]:
    """The verdicts that are in force and call any of these entries, or what they are of, wrong.

    One about a message that was forgotten since is none: nobody can say any more what it was about.
    """
    rows = rows_in(tx, _named(tx), entries.c.id, entry_ids)
    names = {row.id: [uid for uid in (row.ref_uid, row.exchange_uid, row.conversation_uid) if uid] for row in rows}
    told = ratings_of(tx, {uid for uids in names.values() for uid in uids})
    wrong = {uid: [one for one in in_force(each) if one.verdict is Verdict.WRONG] for uid, each in told.items()}
    about = {one.about for each in wrong.values() for one in each if one.about and not one.question}
    columns = entries.c.ref_uid, entries.c.id, entries.c.text
    said = {row.ref_uid: row for row in rows_by(tx, entries.c.ref_uid, sorted(about), *columns)}
    found = []
    for entry_id, uids in names.items():
        for one in (one for uid in uids for one in wrong.get(uid, ())):
            if one.question or not one.about:
                found.append(Objection(entry_id, one.question))
            elif one.about in said:
                found.append(Objection(entry_id, said[one.about].text, said[one.about].id))
    return found


@dataclass(frozen=True, slots=True)
class OwnLabel:
    """What the owner has said of a conversation, and what it was called before.

    Attributes:
        label: None where nothing was said.
        title: its own; likewise `project_id`, the row of its own project.
    """

    label: Labelled | None
    title: str
    project_id: int | None

    def of(self, tx: Transaction, head: Conversation) -> Conversation:
        """The conversation as it was recorded; a title that neither it nor its owner has given is damage, and stays."""
        project = None if self.project_id is None else project_identity(tx, self.project_id)
        shown = (self.label and self.label.title) or self.title
        return replace(head, title=self.title if head.title == shown else head.title, project=project)


def own_label(tx: Transaction, uid: str) -> OwnLabel:
    """What was said of a conversation; nothing of one that is not there."""
    columns = (conversations.c.title, conversations.c.project_id, conversations.c.label)
    row = tx.connection.execute(tx.select(*columns).where(conversations.c.uid == uid)).first()
    if row is None or not row.label:
        return OwnLabel(None, row.title if row else "", row.project_id if row else None)
    said, project = row.label, row.label.get("project")
    identity = ProjectIdentity(project["key"], project["name"], tuple(project["aliases"])) if project else None
    label = Labelled(uid, parse_moment(said["at"]), said["title"], tuple(said["tags"]), identity)
    return OwnLabel(label, said["own_title"], said["own_project_id"])


def apply_label(tx: Transaction, event: Labelled) -> None:
    """Bring a conversation to what its owner says of it, unless that was said before what it has."""
    before = own_label(tx, event.conversation_uid)
    if before.label is not None and before.label.at >= event.at:
        return
    _put_label(tx, event, before.title, before.project_id)


def retitle(tx: Transaction, uid: str, title: str) -> None:
    """Give a conversation a title of its own; one that its owner has given stays above it."""
    before = own_label(tx, uid)
    if before.label is not None:
        _put_label(tx, before.label, title, before.project_id)
    else:
        tx.update(conversations, conversations.c.uid == uid, title=title)


def untitle(tx: Transaction, uid: str, forgotten: Sequence[str]) -> None:
    """Take away titles that are made of one forgotten text's words, and any where nothing is left of the talk."""
    row_id = tx.connection.scalar(tx.select(conversations.c.id).where(conversations.c.uid == uid))
    said = own_label(tx, uid)
    given = said.label.title if said.label else ""
    if row_id is None or not (said.title or given):
        return
    left = tx.select(messages.c.id).where(messages.c.conversation_id == row_id).limit(1)
    is_empty = tx.connection.scalar(left) is None
    own = "" if is_empty or _is_made_of(said.title, forgotten) else said.title
    if said.label is not None and given and (is_empty or _is_made_of(given, forgotten)):
        _put_label(tx, replace(said.label, title=""), own, said.project_id)
    elif own != said.title:
        retitle(tx, uid, own)


def untitled(events: Iterable[Event], refused: Mapping[str, Sequence[str]]) -> Iterator[Event]:
    """The events without titles that are made of a text's words that was refused, by its conversation, as forgotten."""
    for event in events:
        if not isinstance(event, Conversation | Labelled | Titled):
            yield event
            continue
        uid = event.uid if isinstance(event, Conversation) else event.conversation_uid
        if not (event.title and _is_made_of(event.title, refused.get(uid, ()))):
            yield event
        elif not isinstance(event, Titled):
            yield replace(event, title="")


def _is_made_of(title: str, texts: Iterable[str]) -> bool:
    words = _WORD.findall(title.casefold())
    return any(all(word in text for word in words) for text in map(str.casefold, texts))


def tags_of(label: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The tags of a conversation by its column `label`."""
    return tuple((label or {}).get("tags", ()))


def facets_of(tags: Iterable[str]) -> list[str]:
    """The facets by which search finds what has tags."""
    return [f"{TAG}{tag}" for tag in tags]


def used_tags(tx: Transaction) -> dict[str, int]:
    """How many conversations have each tag."""
    found: dict[str, int] = {}
    for label in tx.connection.scalars(tx.select(conversations.c.label).where(conversations.c.label.is_not(None))):
        for tag in tags_of(label):
            found[tag] = found.get(tag, 0) + 1
    return found


def tagged(tx: Transaction, tags: Collection[str]) -> list[int]:
    """Rows of conversations that have all of the tags."""
    labelled = tx.select(conversations.c.id, conversations.c.label).where(conversations.c.label.is_not(None))
    return [row.id for row in tx.connection.execute(labelled) if set(tags) <= set(tags_of(row.label))]


def having_any(tx: Transaction, entry_ids: Collection[int], tags: Iterable[str]) -> set[int]:
    """Those of the entries that have any of the tags."""
    wanted = set(facets_of(tags))
    rows = rows_by(tx, entry_facets.c.entry_id, sorted(entry_ids), entry_facets.c.entry_id, entry_facets.c.facet)
    return {row.entry_id for row in rows if row.facet in wanted}


def _put_label(tx: Transaction, label: Labelled, title: str, project_id: int | None) -> None:
    """Write a label above a conversation's own title and project, and have search see it."""
    mine = conversations.c.uid == label.conversation_uid
    row = tx.connection.execute(tx.select(conversations).where(mine)).first()
    if row is None:
        return
    project = None if label.project is None else asdict(label.project)
    said: dict[str, Any] = {
        "at": format_moment(label.at),
        "title": label.title,
        "tags": list(label.tags),
        "project": project,
    }
    said |= {"own_title": title, "own_project_id": project_id}
    chosen = project_id if label.project is None else ensure_project(tx, label.project)
    tx.update(conversations, mine, label=said, title=label.title or title, project_id=chosen)
    before = tags_of(row.label)
    if chosen == row.project_id and set(before) == set(label.tags):
        return
    entry_ids = sorted(tx.connection.scalars(tx.select(entries.c.id).where(entries.c.conversation_id == row.id)))
    index = tx.text.before_change(tx.connection, entry_ids)
    for batch in batches(entry_ids):
        gone = facets_of(tag for tag in before if tag not in label.tags)
        if gone:
            tx.delete(entry_facets, entry_facets.c.entry_id.in_(batch), entry_facets.c.facet.in_(gone))
        if chosen != row.project_id:
            tx.update(entries, tx.dialect.one_of(entries.c.id, batch), project_id=chosen)
    new = facets_of(tag for tag in label.tags if tag not in before)
    tx.insert(entry_facets, ({"entry_id": entry_id, "facet": facet} for entry_id in entry_ids for facet in new))
    index(())
