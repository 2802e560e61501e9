"""Looking things up in all spaces that may be read: by id in the first that has it, lists as one, told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from harken.context.rules import Rules
from harken.engine.archive import Archive
from harken.engine.engine import Harken
from harken.engine.maintenance import Maintenance, StoreStatus
from harken.errors import NotFoundError
from harken.log import Log
from harken.model.conversations import Tombstone, least_trusted
from harken.model.experiences import EXPERIENCE, Experience
from harken.model.lookups import ConversationFilter, ListedConversation, Page, Rule, RuleState, Surroundings
from harken.model.provenance import Provenance
from harken.model.team import RecordOrigin
from harken.record.forget import plan_saved
from harken.record.recorder import Recorder
from harken.search.session import NOTHING_RECORDED
from harken.search.union import in_one_order, trust_here
from harken.sources.experiences.experiences import Active, Experiences
from harken.sources.memories.memories import FoundMemories, Memories, whole_uids
from harken.sources.memories.memory import Memory
from harken.storage.conversations import messages_of_exchange
from harken.storage.positions import messages_within
from harken.storage.records.rows import MEMORY

if TYPE_CHECKING:
    from harken.chat.details import DetailsPage
    from harken.model.arguments import DetailsWanted
    from harken.model.lookups import Injected, Injection
    from harken.record.forget import ForgetPlan, Forgotten

_Found = TypeVar("_Found")
_Talk = TypeVar("_Talk", Surroundings, Page)
_Kept = TypeVar("_Kept", Memory, Experience)
_AT_ONCE = 500
_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Reach:
    """The spaces that a speaker may read besides the one at hand.

    Attributes:
        space: the id of that one.
        others: opens the others, each by its id, which are read and no more.
        whose: tells of things, each named by its space and its ids, whose they are; None of one's own.
        copies: finds the copies of records of the space at hand that were shared, by the records' ids.
        forget_copies: forgets copies.
    """

    space: str
    others: Callable[[], Sequence[tuple[str, Harken]]]
    threads: Executor
    whose: Callable[[Sequence[tuple[str, Sequence[str]]]], list[Provenance | None]]
    copies: Callable[[Sequence[str]], list[RecordOrigin]]
    forget_copies: Callable[[Sequence[RecordOrigin]], list[str]]

    def every(self, own: Callable[[], _Found], ask: Callable[[Harken], _Found]) -> list[tuple[str, _Found]]:
        """What each space answers, side by side, its own first; those that have not what is named are left out.

        Raises:
            NotFoundError: none has it.
        """
        found, missing = list[tuple[str, _Found]](), list[NotFoundError]()
        asking = [(space, self.threads.submit(ask, each).result) for space, each in self.others()]
        for space, answer in ((self.space, own), *asking):
            try:
                found.append((space, answer()))
            except NotFoundError as error:
                missing.append(error)
            except Exception as error:  # the other spaces have an answer
                if answer is own:
                    raise
                _log.warning("space_not_read", error_class=type(error).__name__)
        if missing and not found:
            raise missing[0]
        return found

    def first(self, own: Callable[[], _Found], ask: Callable[[Harken], _Found]) -> tuple[str, _Found]:
        """What an id, or the beginning of one, names: here, or else in one of the others.

        Raises:
            NotFoundError: it names nothing, or more than one thing.
        """
        try:
            return self.space, own()
        except NotFoundError as error:
            missing = error

        def nothing() -> _Found:
            raise missing

        found = self.every(nothing, ask)
        if len(found) > 1:
            raise NotFoundError("This is the beginning of several ids. Give a whole one.")
        return found[0]

    @contextmanager
    def forgetting(self, uids: Sequence[str]) -> Iterator[None]:
        """Forget copies before the records go, for what is gone is not named again, and those made meanwhile."""
        self.forget_copies(self.copies(uids))
        yield
        self.forget_copies(self.copies(uids))

    def origin(self, space: str, *uids: str) -> Provenance | None:
        """Whose one thing is."""
        return self.whose([(space, uids)])[0]


def _page(
    answers: Iterable[tuple[str, Sequence[_Kept]]], same: Callable[[_Kept], object], limit: int, offset: int
) -> list[tuple[str, _Kept]]:
    """A page of what spaces list, newest first, each thing once, as the first space has it: others have copies."""
    seen: dict[object, tuple[str, _Kept]] = {}
    for space, some in answers:
        for one in some:
            seen.setdefault(same(one), (space, one))
    newest = sorted(seen.values(), key=lambda each: each[1].created_at, reverse=True)
    return newest[max(0, offset) :][:limit]


def _newest(limit: int, offset: int, **wanted: Any) -> Callable[[Callable[..., Sequence[_Found]]], list[_Found]]:
    """Reads as many of a space's list as a page of all spaces may need, however few it gives at once."""
    most = limit + max(0, offset)

    def read(listed: Callable[..., Sequence[_Found]]) -> list[_Found]:
        found: list[_Found] = []
        while True:
            size = min(_AT_ONCE, most - len(found)) if limit > 0 else limit
            found += (page := listed(limit=size, offset=len(found), **wanted))
            if len(page) < size or len(found) >= most:
                return found

    return read


def told_surroundings(reach: Reach, space: str, found: _Talk) -> _Talk:
    """Messages and their conversation, with whose they are."""
    origin = reach.origin(space, found.conversation.uid)
    whose = reach.whose([(space, (each.uid, each.conversation_uid)) for each in found.messages])
    said = zip(found.messages, whose, strict=True)
    messages = tuple(replace(each, trust=trust_here(each.trust, by)) for each, by in said)
    return replace(found, conversation=replace(found.conversation, origin=origin), messages=messages)


def _forget_shared(reach: Reach, recorder: Recorder, source: str, uids: Sequence[str]) -> None:
    """Forget saved records, and the copies that were shared."""
    with recorder.store.reading() as tx:
        plan = plan_saved(tx, source, uids, recorder.now())
        recorder.changing(tx, plan.tombstones)
    with reach.forgetting(uids):
        recorder.forget_planned(plan)


@dataclass(slots=True)
class TeamMemories(Memories):
    """Memories of all spaces that may be read; what changes them finds those of the space at hand alone."""

    reach: Reach

    def get(self, uid: str) -> Memory:
        """See `Memories.get`."""
        return self._told([self.reach.first(lambda: Memories.get(self, uid), lambda there: there.memories.get(uid))])[0]

    def list(
        self,
        category: str | None = None,
        tags: Iterable[str] = (),
        *,
        project: str | None = None,
        superseded: bool = False,
        limit: int = 50,
        offset: int = 0,
    ) -> list[Memory]:
        """See `Memories.list`."""
        wanted: dict[str, Any] = {"tags": tuple(tags), "project": project, "superseded": superseded}
        newest = _newest(limit, offset, category=category, **wanted)
        answers = self.reach.every(lambda: newest(partial(Memories.list, self)), lambda it: newest(it.memories.list))
        return [*self._told(_page(answers, lambda one: (one.created_at, one.content), limit, offset))]

    def search(self, query: str, **options: Any) -> FoundMemories:
        """See `Memories.search`; notes are those of the space at hand."""
        answers = self.reach.every(
            lambda: Memories.search(self, query, **options), lambda there: there.memories.search(query, **options)
        )
        merged = in_one_order(
            answers,
            lambda one: one.hit.score,
            lambda one: one.hit.similarity,
            lambda one, score: replace(one, hit=replace(one.hit, score=score)),
            lambda one: (one.memory.created_at, one.memory.content),
        )[: options.get("limit", 10)]
        told = self._told([(space, one.memory) for space, one in merged])
        found = FoundMemories(replace(one, memory=memory) for (_, one), memory in zip(merged, told, strict=True))
        found.notes = [note for note in answers[0][1].notes if not found or note != NOTHING_RECORDED]
        return found

    def due(self, at: datetime | None = None) -> Sequence[Memory]:
        """See `Memories.due`; those of the space at hand alone, for only there can they be confirmed."""
        return self._told([(self.reach.space, one) for one in Memories.due(self, at)])

    def forget(self, uids: Sequence[str]) -> Sequence[str]:
        """See `Memories.forget`; the copies that were shared go as well."""
        with self.store.reading() as tx:
            whole = whole_uids(tx, MEMORY, uids)
        _forget_shared(self.reach, self.recorder, MEMORY, whole)
        return whole

    def _told(self, found: Sequence[tuple[str, Memory]]) -> Sequence[Memory]:
        origins = self.reach.whose([(space, (one.uid,)) for space, one in found])
        return [
            replace(one, origin=origin, trust=trust_here(one.trust, origin))
            for (_, one), origin in zip(found, origins, strict=True)
        ]


@dataclass(slots=True)
class TeamExperiences(Experiences):
    """Experiences of all spaces that may be read, shown by their ids."""

    reach: Reach

    def show(self, uid: str) -> Experience:
        """See `Experiences.show`."""
        found = self.reach.first(lambda: Experiences.show(self, uid), lambda it: it.experiences.show(uid))
        return self._told([found])[0]

    def active(self, **place: Any) -> Active | None:
        """See `Experiences.active`; where none is here, one's own in another space, with where it stands."""
        found = self.reach.every(lambda: Experiences.active(self, **place), lambda it: it.experiences.active(**place))
        space, active = next((each for each in found if each[1] is not None), (self.reach.space, None))
        if active is None or space == self.reach.space:
            return active
        return replace(active, experience=self._told([(space, active.experience)])[0])

    def list(self, limit: int = 20, *, offset: int = 0, **wanted: Any) -> Sequence[Experience]:
        """See `Experiences.list`."""
        newest = _newest(limit, offset, **wanted)
        answers = self.reach.every(
            lambda: newest(partial(Experiences.list, self)), lambda there: newest(there.experiences.list)
        )
        return self._told(_page(answers, lambda one: (one.created_at, one.goal, one.hypothesis), limit, offset))

    def _told(self, found: Sequence[tuple[str, Experience]]) -> Sequence[Experience]:
        """Experiences, each with its agent; of another person's, with where it stands as well."""
        origins = self.reach.whose([(space, (one.uid,)) for space, one in found])
        return [
            one if origin is None else replace(one, agent=f"{one.agent}, {origin.label}")
            for (_, one), origin in zip(found, origins, strict=True)
        ]

    def forget(self, uid: str) -> str:
        """See `Experiences.forget`."""
        whole = Experiences.show(self, uid).uid
        _forget_shared(self.reach, self.recorder, EXPERIENCE, [whole])
        return whole


@dataclass(frozen=True, slots=True)
class TeamArchive(Archive):
    """What was said in all spaces that may be read."""

    reach: Reach

    def page(self, uid: str, offset: int | None = None, limit: int = 50) -> Page:
        """See `Archive.page`."""
        space, found = self.reach.first(
            lambda: Archive.page(self, uid, offset, limit), lambda there: there.archive.page(uid, offset, limit)
        )
        return told_surroundings(self.reach, space, found)

    def details(self, wanted: DetailsWanted) -> DetailsPage:
        """See `Archive.details`."""
        space, (found, said) = self.reach.first(lambda: _details(self, wanted), lambda it: _details(it.archive, wanted))
        origin = self.reach.origin(space, found.uid, *said[:1])
        whose = [origin, *self.reach.whose([(space, (uid, found.uid)) for uid in said])]
        return replace(found, origin=origin, trust=least_trusted(trust_here(found.trust, by) for by in whose))

    def recalls(self, *wanted: Any, **named: Any) -> list[Injection]:
        """See `Archive.recalls`; what stands in another space is told as it is there."""
        found = Archive.recalls(self, *wanted, **named)
        lacking = {item.uid for each in found for item in each.items if not item.source}
        told: dict[str, Injected] = {}
        answers = self.reach.every(lambda: told, lambda it: it.archive.injected(lacking)) if lacking else []
        for space, items in answers:
            origins = self.reach.whose([(space, (uid, item.conversation_uid or "")) for uid, item in items.items()])
            told |= {item.uid: replace(item, origin=by) for item, by in zip(items.values(), origins, strict=True)}

        def now(it: Injected) -> Injected:
            return replace(told.get(it.uid, it), why=it.why, rated=it.rated, factor=it.factor)

        return [replace(each, items=tuple(map(now, each.items))) for each in found] if told else found


def _details(archive: Archive, wanted: DetailsWanted) -> tuple[DetailsPage, Sequence[str]]:
    """A conversation or an exchange in detail, and the ids of its messages."""
    found = Archive.details(archive, wanted)
    with archive.store.reading() as tx:
        if found.kind == "conversation":
            return found, messages_within(tx, [found.uid])
        return found, [message.uid for message in messages_of_exchange(tx, found.uid)]


@dataclass(eq=False, repr=False)
class TeamMaintenance(Maintenance):
    """Lists of all spaces that may be read; everything else is of the space at hand."""

    reach: Reach = field(kw_only=True)

    def conversations(self, wanted: ConversationFilter) -> tuple[list[ListedConversation], int]:
        """See `Maintenance.conversations`."""
        whole = replace(wanted, limit=wanted.limit + wanted.offset, offset=0)
        answers = self.reach.every(
            lambda: Maintenance.conversations(self, whole), lambda there: there.maintenance.conversations(whole)
        )
        found = [(space, one) for space, (some, _) in answers for one in some]
        found.sort(key=lambda each: each[1].conversation.updated_at, reverse=True)
        shown = found[wanted.offset :][: wanted.limit]
        origins = self.reach.whose([(space, (one.conversation.uid,)) for space, one in shown])
        listed = [
            replace(one, conversation=replace(one.conversation, origin=origin))
            for (_, one), origin in zip(shown, origins, strict=True)
        ]
        return listed, sum(total for _, (_, total) in answers)

    def plan_forget(self, **named: Any) -> ForgetPlan:
        """See `Maintenance.plan_forget`; the copies that were shared are named with it."""
        plan = Maintenance.plan_forget(self, **named)
        uids = [grave.uid for grave in plan.tombstones]
        with self.store.reading() as tx:
            self.recorder().changing(tx, plan.tombstones)
            graves = [grave for grave in plan.tombstones if isinstance(grave, Tombstone)]
            uids += messages_within(tx, [grave.uid for grave in graves if grave.kind == "conversation"])
        return replace(plan, copies=tuple(self.reach.copies(uids)), shared=tuple(uids))

    def forget(self, doomed: ForgetPlan, progress: Callable[[int, int], None] = lambda _done, _all: None) -> Forgotten:
        """See `Maintenance.forget`; the copies that were shared go as well, but those that the plan lets stay."""
        with self.reach.forgetting(doomed.shared):
            return Maintenance.forget(self, doomed, progress)

    def titles(self, conversation_uids: Sequence[str], space: str = "") -> dict[str, str]:
        """See `Maintenance.titles`."""
        own = {} if space else Maintenance.titles(self, conversation_uids)
        left = [uid for uid in conversation_uids if uid not in own]

        def ask(there: Any) -> dict[str, str]:
            return there.maintenance.titles(left) if space in ("", there.seat.space.name, there.seat.space.id) else {}

        answers = self.reach.every(lambda: own, ask) if left else [("", own)]
        return {uid: title for _, titles in answers for uid, title in titles.items()}

    def projects(self) -> list[tuple[str, str, int]]:
        """See `Maintenance.projects`."""
        answers = self.reach.every(lambda: Maintenance.projects(self), lambda there: there.maintenance.projects())
        counts: dict[tuple[str, str], int] = {}
        for _, some in answers:
            for key, name, count in some:
                counts[key, name] = counts.get((key, name), 0) + count
        return [(*named, count) for named, count in sorted(counts.items(), key=lambda each: -each[1])]

    def status(self) -> StoreStatus:
        """See `Maintenance.status`; what the whole server holds is not told."""
        return replace(Maintenance.status(self), sizes={}, store="")


@dataclass(frozen=True, slots=True)
class TeamRules(Rules):
    """Rules of all spaces that may be read; those of others are shown, and hold for nobody else."""

    reach: Reach

    def list(self, everything: bool = False) -> list[Rule]:
        """See `Rules.list`."""
        answers = self.reach.every(lambda: Rules.list(self, everything), lambda there: there.rules.list(everything))
        found = [(space, rule) for space, rules in answers for rule in rules]
        origins = self.reach.whose([(space, (rule.message_uid, rule.conversation_uid)) for space, rule in found])
        told = [
            replace(rule, origin=origin)
            if origin is None or origin.is_mine
            else replace(rule, origin=origin, trust=trust_here(rule.trust, origin), state=RuleState.FOUND)
            for (_, rule), origin in zip(found, origins, strict=True)
        ]
        return sorted(told, key=lambda rule: rule.created_at, reverse=True)
