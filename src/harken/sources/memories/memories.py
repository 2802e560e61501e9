"""Saved memories: what one holds, its limits, and how they are added, found, changed, forgotten and shown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from harken.errors import StoreReadOnlyError, UsageError
from harken.model.arguments import CATEGORIES, MAX_CONTENT_CHARS, MAX_TAGS, check_limit, several
from harken.model.conversations import Hit, ProjectIdentity, SearchScope, Trust
from harken.model.lookups import SearchResult
from harken.record.labels import checked_tags
from harken.record.project import identify_project
from harken.record.recorder import Recorder
from harken.sources.memories.duplicates import SAME, Alike, MeaningComparison, find_alike, normal
from harken.sources.memories.memory import REVIEW_DAYS, Memory, kept_memory, memory_of
from harken.storage.ports import Store, Transaction
from harken.storage.projects import ensure_project, known_project, project_row
from harken.storage.records.rows import MEMORY as SOURCE
from harken.storage.records.rows import (
    accessed_times,
    due_memories,
    find_kept,
    kept_uid,
    list_memories,
    set_local,
    standing_memories,
    standing_question,
)
from harken.storage.tables import from_microseconds, interpret, to_microseconds

DEFAULT_IMPORTANCE = 0.5
_MOST_FOUND, _MOST_LISTED = 100, 1000
# Who asks for important ones only gets them from among so many times as many.
_OVER_FETCH = 5


def checked_content(content: str) -> str:
    """The content without blanks around it.

    Raises:
        UsageError: it has no letter or digit, or is too long.
    """
    text = content.strip()
    if not any(map(str.isalnum, text)):
        raise UsageError("A memory needs words. Nothing was saved.")
    if len(text) > MAX_CONTENT_CHARS:
        raise UsageError(f"A memory has at most {MAX_CONTENT_CHARS:,} characters, not {len(text):,}. Shorten it.")
    return text


def checked_category(category: str) -> str:
    """The category in small letters.

    Raises:
        UsageError: there is no such category.
    """
    small = category.strip().lower()
    if small not in CATEGORIES:
        raise UsageError(f"There is no category '{category}'. Categories: {', '.join(CATEGORIES)}.")
    return small


def checked_importance(importance: float) -> float:
    """The importance.

    Raises:
        UsageError: it is not within 0 and 1.
    """
    if not math.isfinite(importance) or not 0 <= importance <= 1:
        raise UsageError(f"importance must be from 0 to 1, not {importance:g}.")
    return float(importance)


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """A memory after it was saved: `added`, `merged` into one alike, or `superseded`, in place of those alike."""

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


class FoundMemories(tuple[FoundMemory, ...]):
    """The memories that answer a query, best first; `notes` say what could not be searched, and what helps."""

    notes: Sequence[str] = ()


@dataclass(slots=True)
class Memories:
    """Memories saved on purpose; reached as `Harken.memories`.

    Ids may be abbreviated to their beginnings, of at least four characters.
    """

    store: Store
    recorder: Recorder
    search_entries: Callable[..., SearchResult]
    compare: MeaningComparison

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
        words, or 0.92 in meaning) stands in place of the older one, which is found no more, and is kept. Secrets are
        taken out first. Without an importance, 0 to 1, it has that of what it supersedes, else 0.5; a directory tells
        the project where none is given.

        Raises:
            UsageError: a limit is passed.
        """
        text = checked_content(self.recorder.clean(content))
        kind, own_tags = checked_category(category), checked_tags(self.recorder.clean(several(tags)))
        weight = None if importance is None else checked_importance(importance)
        project = project or identify_project(directory)
        # Before the write lock, since a model may take its time; what comes in between is known by its words.
        similarities = self._similarities(text, kind, project)
        with self.recorder.saving(SOURCE) as records:
            moment, uid = self.recorder.now(), self.recorder.new_uid()
            new = Memory(uid, text, kind, weight or 0.0, own_tags, moment, moment, project, Trust.of(trust))
            saved, changed = _reconciled(records.tx, new, weight, similarities, self.recorder.others)
            if changed:
                saved = replace(saved, memory=memory_of(records.save(*map(kept_memory, changed))))
                self.compare.keep(records.tx, saved.memory.uid, saved.memory.content)
            return saved

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
        """The memories that have all of the tags, newest first, up to 1000; or those that were superseded.

        Raises:
            UsageError: a limit is passed.
            NotFoundError: there is no such project.
        """
        check_limit(limit, _MOST_LISTED)
        wanted = set(checked_tags(tags))
        with self.store.reading() as tx:
            project_id = None if project is None else project_row(tx, project)
            kind = None if category is None else checked_category(category)
            listed = list_memories(tx, kind, project_id, superseded)
            uids = [uid for uid, its_tags in listed if wanted <= set(its_tags)]
            return _read(tx, uids[max(0, offset) :][:limit])

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
        directory: str | Path | None = None,
        conversation: str | None = None,
    ) -> FoundMemories:
        """The memories that answer a query, best first; those that were superseded are not among them.

        From a directory, or a conversation's project, others are seen as `rag.scope` has it; from nowhere, all alike.

        Raises:
            UsageError: the limit is not from 1 to 100, or another argument is not possible.
            NotFoundError: there is no such project.
        """
        check_limit(limit, _MOST_FOUND)
        least = checked_importance(min_importance)
        kinds = [] if category is None else [f"category:{checked_category(category)}"]
        facets = [*kinds, *(f"tag:{tag}" for tag in checked_tags(tags))]
        scope = SearchScope(sources=(SOURCE,), project=project, facets=tuple(facets))
        wanted = limit * (_OVER_FETCH if least else 1)
        answer = self.search_entries(query, scope, wanted, mode, directory=directory, conversation=conversation)
        with self.store.reading() as tx:
            known = {one.uid: one for one in _read(tx, [hit.entry.ref_uid for hit in answer.hits])}
        found = [FoundMemory(known[hit.entry.ref_uid], hit) for hit in answer.hits if hit.entry.ref_uid in known]
        best = FoundMemories([one for one in found if one.memory.importance >= least][:limit])
        best.notes = answer.notes
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
        """Change a memory in place; what is None stays. Its earlier words leave the journal.

        Raises:
            UsageError: nothing is changed, a limit is passed, or another memory has these words already.
            NotFoundError: the id names none, or several.
        """
        changes: dict[str, Any] = {}
        if content is not None:
            # Whoever says what is so says that it is so now.
            changes |= {"content": checked_content(self.recorder.clean(content)), "confirmed_at": self.recorder.now()}
        if category is not None:
            changes["category"] = checked_category(category)
        if importance is not None:
            changes["importance"] = checked_importance(importance)
        if tags is not None:
            changes["tags"] = checked_tags(self.recorder.clean(several(tags)))
        if not changes:
            raise UsageError("Nothing to change. Give a content, a category, an importance or tags.")
        with self.recorder.saving(SOURCE) as records:
            [present] = _read(records.tx, [kept_uid(records.tx, SOURCE, uid)])
            edited = replace(present, **changes)
            project_id = None if edited.project is None else ensure_project(records.tx, edited.project)
            named = changes.keys() & {"content", "category"}
            for one in standing_memories(records.tx, edited.category, project_id) if named else ():
                if one.uid != present.uid and normal(one.content) == normal(edited.content):
                    raise UsageError(f"A memory says so already. Merge: harken memory merge {one.uid} {present.uid}")
            return memory_of(records.save(kept_memory(edited)))

    def review(self, uid: str, by: datetime | None = None, *, confirmed: bool = False) -> Memory:
        """Say when a memory is to be looked at again, None for never; and, if so, that it still holds.

        Raises:
            NotFoundError: the id names none, or several.
            UsageError: the moment is none.
        """
        by = by and from_microseconds(to_microseconds(by))
        with self.recorder.saving(SOURCE) as records:
            [present], now = _read(records.tx, [kept_uid(records.tx, SOURCE, uid)]), self.recorder.now()
            written = replace(present, review_by=by, confirmed_at=now if confirmed else present.confirmed_at)
            return memory_of(records.save(kept_memory(written)))

    def confirm(self, uid: str) -> Memory:
        """Say that a memory still holds; where it is to be looked at again, that is as long from now as its kind asks.

        Raises:
            NotFoundError: the id names none, or several.
        """
        present = self.get(uid)
        days = REVIEW_DAYS[present.category] or 0
        later = self.recorder.now() + timedelta(days=days) if present.review_by and days else None
        return self.review(present.uid, later, confirmed=True)

    def due(self, at: datetime | None = None) -> Sequence[Memory]:
        """The memories that are to be looked at again by a moment, now unless it is given; the longest due first."""
        with self.store.reading() as tx:
            return _read(tx, [uid for uid, _ in due_memories(tx, at or self.recorder.now())])

    def used_tags(self) -> Mapping[str, int]:
        """How many memories that stand have each tag."""
        with self.store.reading() as tx:
            listed = list_memories(tx, None, None, superseded=False)
        return Counter(tag for _, tags in listed for tag in tags)

    def forget(self, uids: Sequence[str]) -> Sequence[str]:
        """Forget memories for good, with those that they superseded, which have nearly the same words.

        Returns:
            Every id that was forgotten.
        Raises:
            NotFoundError: an id names none, or several; then nothing was forgotten.
        """
        with self.store.reading() as tx:
            whole = whole_uids(tx, SOURCE, uids)
        self.recorder.forget(SOURCE, whole)
        return whole

    def merge(self, uids: Sequence[str], content: str | None = None) -> SavedMemory:
        """Let the first memory stand in place of the others: with all tags, and the highest importance.

        Raises:
            UsageError: there are not two of them.
            NotFoundError: an id names none, or several.
        """
        text = None if content is None else checked_content(self.recorder.clean(content))
        with self.recorder.saving(SOURCE) as records:
            named = list(dict.fromkeys(kept_uid(records.tx, SOURCE, uid) for uid in uids))
            if len(named) < 2:
                raise UsageError("Merging takes two memories or more. Ids are printed by: harken memory list")
            all_of_them = _read(records.tx, named)
            first, *others = all_of_them
            whole = replace(
                first,
                content=text or first.content,
                tags=_joined(*(one.tags for one in all_of_them))[:MAX_TAGS],
                importance=max(one.importance for one in all_of_them),
                supersedes=_joined(first.supersedes, tuple(one.uid for one in others)),
                superseded_by=None,
                confirmed_at=self.recorder.now(),
            )
            superseded = (kept_memory(replace(one, superseded_by=first.uid)) for one in others)
            written = memory_of(records.save(kept_memory(whole), *superseded))
        merged = tuple(Alike(one.uid, 1.0, "named to be merged") for one in others)
        return SavedMemory(written, "superseded", merged)

    def _similarities(self, text: str, category: str, project: ProjectIdentity | None) -> Mapping[int, float]:
        with self.store.reading() as tx:
            project_id = None if project is None else known_project(tx, project)
            if project is not None and project_id is None:
                return {}
            tx.dialect.end_with(tx.connection, standing_question(tx, category, project_id))
            standing = standing_memories(tx, category, project_id)
        return self.compare(text, {one.entry_id: one.content for one in standing})

    def _touch(self, uids: Sequence[str]) -> None:
        """Note that memories were looked at on purpose; what recalls them by itself does not write."""
        if not uids:
            return
        # What may only be read is shown all the same.
        with suppress(StoreReadOnlyError), self.store.writing(of=[SOURCE]) as tx:
            set_local(tx, SOURCE, uids, accessed_at=self.recorder.now())


def _reconciled(
    tx: Transaction,
    new: Memory,
    importance: float | None,
    similarities: Mapping[int, float],
    others: Callable[[Transaction, Collection[str]], Collection[str]],
) -> tuple[SavedMemory, list[Memory]]:
    """The new memory merged into one that says the same, or in place of those that it says anew; and what to write.

    What somebody else has brought stays as it is: said anew it stands beside that, said the same it is known already.
    """
    project_id = None if new.project is None else ensure_project(tx, new.project)
    standing = standing_memories(tx, new.category, project_id)
    compared = {one.uid: similarities[one.entry_id] for one in standing if one.entry_id in similarities}
    alike = find_alike(new.content, new.category, {one.uid: one.content for one in standing}, compared)
    known = find_kept(tx, SOURCE, [one.uid for one in alike])
    theirs = others(tx, list(known))
    if alike and alike[0].why == SAME and alike[0].uid in theirs:
        return SavedMemory(memory_of(known[alike[0].uid]), "merged", (alike[0],)), []
    alike = [one for one in alike if one.uid not in theirs]
    older = [memory_of(known[one.uid]) for one in alike]
    if alike and alike[0].why == SAME:
        first = older[0]
        tags = _joined(first.tags, new.tags)[:MAX_TAGS]
        merged = replace(first, tags=tags, importance=max(first.importance, new.importance))
        return SavedMemory(merged, "merged", (alike[0],)), [merged] if merged != first else []
    if importance is None:
        importance = max((one.importance for one in older), default=DEFAULT_IMPORTANCE)
    tags = _joined(new.tags, *(one.tags for one in older))[:MAX_TAGS]
    new = replace(new, importance=importance, tags=tags, supersedes=tuple(one.uid for one in older))
    superseded = [replace(one, superseded_by=new.uid) for one in older]
    return SavedMemory(new, "superseded" if older else "added", tuple(alike)), [new, *superseded]


def _read(tx: Transaction, uids: Sequence[str]) -> list[Memory]:
    """The memories of these ids, in this order; those that are gone are left out."""
    known, accessed = find_kept(tx, SOURCE, uids), accessed_times(tx, uids)
    return [interpret(lambda one: memory_of(known[one], accessed.get(one)), uid) for uid in uids if uid in known]


def whole_uids(tx: Transaction, source: str, uids: Iterable[str]) -> list[str]:
    """The ids of saved records by how they begin; of memories, with those that they superseded.

    Raises:
        NotFoundError: one names nothing, or several.
    """
    found = dict.fromkeys(kept_uid(tx, source, uid) for uid in several(uids))
    waiting = list(found) if source == SOURCE else []
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
