"""Saved memories: what one holds and how it is shown; add, list, get, search, edit, forget, merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from harken.errors import UsageError
from harken.model.arguments import MAX_TAGS
from harken.model.conversations import Hit, ProjectIdentity, SavedRecord, SearchScope, Trust
from harken.model.lookups import SearchResult
from harken.sources.memories.duplicates import SAME, Alike, find_alike
from harken.sources.memories.memory import (
    DEFAULT_IMPORTANCE,
    Memory,
    checked_category,
    checked_content,
    checked_importance,
    checked_tags,
    kept_memory,
    memory_of,
)
from harken.sources.source import RecordWriter
from harken.storage.ports import Store, Transaction
from harken.storage.records.lists import MemoryStanding, accessed_times, list_memories, standing_memories
from harken.storage.records.rows import MEMORY as SOURCE
from harken.storage.records.rows import find_kept, kept_uid, set_local
from harken.storage.scopes import ensure_project, known_project, project_row

_MOST_FOUND, _MOST_LISTED = 100, 1000
# Who asks for important ones only gets them from among so many times as many.
_OVER_FETCH = 5


class SearchPort(Protocol):
    """The one retrieval path."""

    def __call__(self, query: str, scope: SearchScope, limit: int, mode: str, /) -> SearchResult:
        """What answers the query, best first."""
        ...


Compare = Callable[[str, Mapping[int, str]], Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """What saving did.

    Attributes:
        outcome: `added`; `merged` into one that says the same; or `superseded`, where it stands in place of others.
        alike: the memories that it was merged into or supersedes, with why.
    """

    memory: Memory
    outcome: str
    alike: tuple[Alike, ...] = ()

    def view(self) -> dict[str, Any]:
        """The memory as JSON, with what saving did."""
        alike = [{"id": one.uid, "similarity": round(one.similarity, 4), "why": one.why} for one in self.alike]
        return {**self.memory.view(), "outcome": self.outcome, "alike": alike}


@dataclass(frozen=True, slots=True)
class FoundMemory:
    """A memory that answers a query, with why."""

    memory: Memory
    hit: Hit

    def view(self) -> dict[str, Any]:
        """The memory as JSON, with how well it answers."""
        return {**self.memory.view(), "score": self.hit.score, "similarity": self.hit.similarity}


@dataclass(slots=True)
class Memories:
    """What was saved on purpose; reached as `Harken.memories`.

    Ids may be abbreviated to their beginnings, of at least four characters.

    Args:
        identify: says which project a directory belongs to.
        compare: the cosine similarity of a text to others, by the ids of their entries; to none without a model.
    """

    store: Store
    keeper: RecordWriter
    search_entries: SearchPort
    identify: Callable[[str | Path | None], ProjectIdentity | None]
    compare: Compare

    def add(
        self,
        content: str,
        category: str = "fact",
        importance: float | None = None,
        tags: Iterable[str] = (),
        *,
        directory: str | Path | None = None,
        project: ProjectIdentity | None = None,
        trust: Trust = Trust.OWNER,
    ) -> SavedMemory:
        """Save a memory; one of the same category and project that says the same is merged or superseded.

        The same words again add nothing but their tags and a higher importance. What says it anew (from 0.9 alike in
        words, or 0.92 in meaning) stands in place of the older one, which is found no more, and is kept.

        Args:
            content: at most 10,000 characters; secrets are taken out first.
            category: `preference`, `fact`, `event`, `workflow`, `context`, `error` or `decision`.
            importance: 0 to 1; None is 0.5, or that of what it supersedes.
            tags: at most 20 of 50 characters.
            directory: tells the project, where none is given; None is none.
            project: that it belongs to.
            trust: whose words they are.
        Raises:
            UsageError: a limit is passed.
        """
        text = checked_content(self.keeper.clean(content))
        kind, own_tags = checked_category(category), checked_tags(self.keeper.clean(list(tags)))
        weight = None if importance is None else checked_importance(importance)
        project = project or (None if directory is None else self.identify(directory))
        meanings = self._compared(text, kind, project)
        saved: list[SavedMemory] = []

        def choose(tx: Transaction) -> Sequence[SavedRecord]:
            project_id = None if project is None else ensure_project(tx, project)
            found = _alike(text, standing_memories(tx, kind, project_id), kind, meanings)
            known = find_kept(tx, SOURCE, [one.uid for one in found])
            older = [memory_of(known[one.uid]) for one in found]
            moment = self.keeper.now()
            if found and found[0].why == SAME:
                merged = _said_again(older[0], own_tags, weight)
                saved.append(SavedMemory(merged, "merged", (found[0],)))
                return [] if merged == older[0] else [kept_memory(merged)]
            share = _importance(weight, older)
            first = Memory(self.keeper.new_uid(), text, kind, share, own_tags, moment, moment, project, trust)
            new = _standing_over(first, older)
            saved.append(SavedMemory(new, "superseded" if older else "added", tuple(found)))
            return [kept_memory(new), *(kept_memory(replace(one, superseded_by=new.uid)) for one in older)]

        written = self.keeper.keep(SOURCE, choose)
        [done] = saved
        return replace(done, memory=memory_of(written[0])) if written else done

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
        """The memories, newest first.

        Args:
            category: only of this one.
            tags: only those that have all of these.
            project: only of this one: its key, short name or folder.
            superseded: those that others stand in place of as well.
            limit: how many at most, 1 to 1000.
            offset: how many are passed over.
        Raises:
            UsageError: a limit is passed.
            NotFoundError: there is no such project.
        """
        _check_limit(limit, _MOST_LISTED)
        wanted = set(checked_tags(tags))
        with self.store.reading() as tx:
            project_id = None if project is None else project_row(tx, project)
            kind = None if category is None else checked_category(category)
            listed = list_memories(tx, kind, project_id, superseded)
            uids = [uid for uid, its_tags in listed if wanted <= set(its_tags)][max(0, offset) :][:limit]
            return _read(tx, uids)

    def get(self, uid: str) -> Memory:
        """A memory by its id.

        Raises:
            NotFoundError: the id names none, or several.
        """
        with self.store.reading() as tx:
            [found] = _read(tx, [kept_uid(tx, SOURCE, uid)])
        self._touch([found.uid])
        return found

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        category: str | None = None,
        tags: Iterable[str] = (),
        min_importance: float = 0.0,
        project: str | None = None,
        mode: str = "hybrid",
    ) -> Sequence[FoundMemory]:
        """The memories that answer a query, best first; those that were superseded are not among them.

        Raises:
            UsageError: the limit is not from 1 to 100, or another argument is not possible.
            NotFoundError: there is no such project.
        """
        _check_limit(limit, _MOST_FOUND)
        least = checked_importance(min_importance)
        facets = [f"tag:{tag}" for tag in checked_tags(tags)]
        if category is not None:
            facets.append(f"category:{checked_category(category)}")
        scope = SearchScope(sources=(SOURCE,), project=project, facets=tuple(facets))
        hits = self.search_entries(query, scope, limit * (_OVER_FETCH if least else 1), mode).hits
        with self.store.reading() as tx:
            known = {one.uid: one for one in _read(tx, [hit.entry.ref_uid for hit in hits])}
        found = [FoundMemory(known[hit.entry.ref_uid], hit) for hit in hits if hit.entry.ref_uid in known]
        best = [one for one in found if one.memory.importance >= least][:limit]
        self._touch([one.memory.uid for one in best])
        return best

    def edit(
        self,
        uid: str,
        *,
        content: str | None = None,
        category: str | None = None,
        importance: float | None = None,
        tags: Iterable[str] | None = None,
    ) -> Memory:
        """Change a memory in place; what is None stays. Its earlier words stay in the journal until it is forgotten.

        Raises:
            UsageError: nothing is changed, or a limit is passed.
            NotFoundError: the id names none, or several.
        """
        changes: dict[str, object] = {}
        if content is not None:
            changes["content"] = checked_content(self.keeper.clean(content))
        if category is not None:
            changes["category"] = checked_category(category)
        if importance is not None:
            changes["importance"] = checked_importance(importance)
        if tags is not None:
            changes["tags"] = checked_tags(self.keeper.clean(list(tags)))
        if not changes:
            raise UsageError("Nothing to change. Give a content, a category, an importance or tags.")

        def choose(tx: Transaction) -> Sequence[SavedRecord]:
            [present] = _read(tx, [kept_uid(tx, SOURCE, uid)])
            return [kept_memory(replace(present, **changes))]  # type: ignore[arg-type]

        [written] = self.keeper.keep(SOURCE, choose)
        return memory_of(written)

    def forget(self, uids: Sequence[str]) -> Sequence[str]:
        """Forget memories for good, with those that they superseded, which have nearly the same words.

        Returns:
            Every id that was forgotten.
        Raises:
            NotFoundError: an id names none, or several; then nothing was forgotten.
        """
        with self.store.reading() as tx:
            doomed = _with_superseded(tx, [kept_uid(tx, SOURCE, uid) for uid in uids])
        self.keeper.forget(SOURCE, doomed)
        return doomed

    def merge(self, uids: Sequence[str], content: str | None = None) -> SavedMemory:
        """Let the first memory stand in place of the others: with its words, all tags, the highest importance.

        Args:
            uids: two or more.
            content: words in place of the first one's.
        Raises:
            UsageError: there are not two of them.
            NotFoundError: an id names none, or several.
        """
        text = None if content is None else checked_content(self.keeper.clean(content))
        merged: list[Alike] = []

        def choose(tx: Transaction) -> Sequence[SavedRecord]:
            named = list(dict.fromkeys(kept_uid(tx, SOURCE, uid) for uid in uids))
            if len(named) < 2:
                raise UsageError("Merging takes two memories or more. Ids are printed by: harken memory list")
            first, *others = _read(tx, named)
            merged.extend(Alike(one.uid, 1.0, "named to be merged") for one in others)
            whole = replace(
                first,
                content=text or first.content,
                tags=_joined(*(one.tags for one in (first, *others)))[:MAX_TAGS],
                importance=max(one.importance for one in (first, *others)),
                supersedes=_joined(first.supersedes, tuple(one.uid for one in others)),
                superseded_by=None,
            )
            return [kept_memory(whole), *(kept_memory(replace(one, superseded_by=first.uid)) for one in others)]

        written = self.keeper.keep(SOURCE, choose)
        return SavedMemory(memory_of(written[0]), "superseded", tuple(merged))

    def _compared(self, text: str, category: str, project: ProjectIdentity | None) -> Mapping[int, float]:
        """Before the write lock, since a model may take its time; what comes in between is known by its words."""
        with self.store.reading() as tx:
            project_id = None if project is None else known_project(tx, project)
            if project is not None and project_id is None:
                return {}
            standing = standing_memories(tx, category, project_id)
        return self.compare(text, {one.entry_id: one.content for one in standing})

    def _touch(self, uids: Sequence[str]) -> None:
        """Note that memories were looked at on purpose; what recalls them by itself does not write."""
        if uids:
            with self.store.writing(of=[SOURCE]) as tx:
                set_local(tx, SOURCE, uids, accessed_at=self.keeper.now())


def _said_again(memory: Memory, tags: tuple[str, ...], importance: float | None) -> Memory:
    """The memory with what came along when the same was said again."""
    most = max(memory.importance, importance or 0.0)
    return replace(memory, tags=_joined(memory.tags, tags)[:MAX_TAGS], importance=most)


def _standing_over(new: Memory, older: Sequence[Memory]) -> Memory:
    """The memory with the tags of those that it supersedes."""
    tags = _joined(new.tags, *(one.tags for one in older))[:MAX_TAGS]
    return replace(new, tags=tags, supersedes=tuple(one.uid for one in older))


def _alike(text: str, standing: Sequence[MemoryStanding], category: str, meanings: Mapping[int, float]) -> list[Alike]:
    compared = {one.uid: meanings[one.entry_id] for one in standing if one.entry_id in meanings}
    return find_alike(text, category, {one.uid: one.content for one in standing}, compared)


def _read(tx: Transaction, uids: Sequence[str]) -> list[Memory]:
    """The memories of these ids that there are, in this order."""
    known, accessed = find_kept(tx, SOURCE, uids), accessed_times(tx, uids)
    return [memory_of(known[uid], accessed.get(uid)) for uid in uids if uid in known]


def _with_superseded(tx: Transaction, uids: Sequence[str]) -> list[str]:
    found = dict.fromkeys(uids)
    waiting = list(uids)
    while waiting:
        older = [uid for one in _read(tx, waiting) for uid in one.supersedes]
        waiting = [uid for uid in dict.fromkeys(older) if uid not in found]
        # Whose record names another as superseded may be a stranger's; the other's own says whether it is so.
        waiting = [one.uid for one in _read(tx, waiting) if one.superseded_by in found]
        found |= dict.fromkeys(waiting)
    return list(found)


def _joined(*words: Sequence[str]) -> tuple[str, ...]:
    """All of them in their order, each once."""
    return tuple(dict.fromkeys(word for some in words for word in some))


def _importance(given: float | None, older: Sequence[Memory]) -> float:
    if given is not None:
        return given
    return max((one.importance for one in older), default=DEFAULT_IMPORTANCE)


def _check_limit(limit: int, most: int) -> None:
    if not 1 <= limit <= most:
        raise UsageError(f"limit must be from 1 to {most}, not {limit}.")
