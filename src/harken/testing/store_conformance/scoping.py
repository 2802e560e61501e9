"""A search sees what its scope lets it see, by words and by vectors alike."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from harken.errors import NotFoundError
from harken.model.conversations import MessageType, ProjectIdentity, Role, SearchScope
from harken.storage.entries import in_scope, row_scope
from harken.storage.past import conversation_row
from harken.storage.ports import RowScope, Store
from harken.testing.store_conformance.asking import LONG, embed, entry_ids, found, keep, read, space_of, unit_vectors
from harken.testing.talk import START, Talk

HOUSE, GARDEN = ProjectIdentity("git:example.org/o/house", "house"), ProjectIdentity("path:/src/garden", "garden")


class Town:
    """Three conversations, two projects, two segments, three days; every message says `zebra`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.house = Talk("house", HOUSE)
        self.house.say(f"zebra one {LONG}")
        self.first_segment = self.house.segment.uid
        self.house.begin_segment()
        self.house.say(f"zebra two {LONG}", Role.ASSISTANT)
        self.house.say("zebra tool", Role.TOOL, type=MessageType.TOOL_RESULT)
        self.garden = Talk("garden", GARDEN, START + timedelta(days=1))
        self.garden.say(f"zebra three {LONG}")
        self.nowhere = Talk("nowhere", start=START + timedelta(days=2))
        self.nowhere.say(f"zebra four {LONG}")
        keep(store, self.house, self.garden, self.nowhere)
        self.messages = [*self.house.messages, *self.garden.messages, *self.nowhere.messages]
        self.names = dict(zip(["one", "two", "tool", "three", "four"], (m.uid for m in self.messages), strict=True))

    def found(self, scope: SearchScope) -> set[str]:
        """Which messages a search by words finds, by their names; the entries themselves must agree."""
        rows = read(self.store, row_scope, scope)
        uids = set(found(self.store, "zebra", scope=rows))
        ids = dict(zip(self.names, entry_ids(self.store, self.messages), strict=True))
        inside = read(self.store, in_scope, list(ids.values()), rows)
        named = {name for name, uid in self.names.items() if uid in uids}
        assert named == {name for name, entry_id in ids.items() if entry_id in inside}
        return named


DAY = timedelta(days=1)
SCOPES: dict[str, tuple[Callable[[Town], SearchScope], str]] = {
    "everywhere": (lambda _: SearchScope(), "one two tool three four"),
    "source": (lambda _: SearchScope(sources=("message",)), "one two tool three four"),
    "another source": (lambda _: SearchScope(sources=("memory",)), ""),
    "one of two sources": (lambda _: SearchScope(sources=("memory", "message"), roles=("tool",)), "tool"),
    "project by name": (lambda _: SearchScope(project="garden"), "three"),
    "project by key": (lambda _: SearchScope(project=HOUSE.key), "one two tool"),
    "project by path": (lambda _: SearchScope(project="/src/garden"), "three"),
    "conversation": (lambda town: SearchScope(conversation=town.nowhere.uid), "four"),
    "the beginning of its id": (lambda town: SearchScope(conversation=town.house.uid[:13]), "one two tool"),
    "conversation by its own name": (lambda _: SearchScope(conversation="garden"), "three"),
    "segment": (lambda town: SearchScope(segment=town.first_segment), "one"),
    "what may be trusted": (lambda _: SearchScope(without_untrusted=True), "one two three four"),
    "that, of a project": (lambda _: SearchScope(project="house", without_untrusted=True), "one two"),
    "that, of a day": (lambda _: SearchScope(until=START + DAY, without_untrusted=True), "one two"),
    "role": (lambda _: SearchScope(roles=("assistant",)), "two"),
    "roles": (lambda _: SearchScope(roles=("assistant", "tool")), "two tool"),
    "since, inclusive": (lambda _: SearchScope(since=START + DAY), "three four"),
    "until, exclusive": (lambda _: SearchScope(until=START + DAY), "one two tool"),
    "between": (lambda _: SearchScope(since=START + DAY, until=START + 2 * DAY), "three"),
    "project and role": (lambda _: SearchScope(project="house", roles=("user",)), "one"),
    "nothing meets both": (lambda town: SearchScope(project="garden", conversation=town.house.uid), ""),
}


class ScopeTests:
    """Inherited by `StoreConformance`."""

    @pytest.mark.parametrize("name", SCOPES)
    def test_only_what_is_in_scope_is_found(self, store: Store, name: str) -> None:
        scope, expected = SCOPES[name]
        town = Town(store)
        assert town.found(scope(town)) == set(expected.split())

    @pytest.mark.parametrize(
        ("several", "without", "expected"),
        [
            (("garden", "nowhere"), None, {"three", "four"}),
            ((), "house", {"three", "four"}),
            (("house", "garden"), "house", {"three"}),
        ],
    )
    def test_conversations_are_named_together_and_one_is_left_out(
        self, store: Store, several: tuple[str, ...], without: str | None, expected: set[str]
    ) -> None:
        town = Town(store)
        space = space_of(store)
        ids = entry_ids(store, town.messages)
        matrix = unit_vectors(5)
        embed(store, space, ids, matrix)
        talks = {"house": town.house, "garden": town.garden, "nowhere": town.nowhere}
        with store.reading() as tx:
            rows = {name: conversation_row(tx, talk.conversation.uid) or 0 for name, talk in talks.items()}
            scope = RowScope(
                conversation_ids=tuple(rows[name] for name in several),
                without_conversation_id=rows[without] if without else None,
            )
            near = set(store.nearest.nearest(tx, space, matrix[0], scope, 10))
        assert set(found(store, "zebra", scope=scope)) == {town.names[name] for name in expected}
        assert near == {ids[list(town.names).index(name)] for name in expected}

    def test_moments_before_1970_have_their_place(self, store: Store) -> None:
        talk = Talk("old", start=datetime(1950, 1, 1, tzinfo=UTC))
        old = talk.say("zebra")
        keep(store, talk)
        for scope in (
            SearchScope(until=datetime(1960, 1, 1, tzinfo=UTC)),
            SearchScope(since=datetime(1940, 1, 1, tzinfo=UTC)),
            SearchScope(until=datetime(1970, 1, 1, tzinfo=UTC)),
        ):
            rows = read(store, row_scope, scope)
            assert found(store, "zebra", scope=rows) == [old.uid]

    def test_an_empty_scope_is_open(self, store: Store) -> None:
        with store.reading() as tx:
            assert row_scope(tx, SearchScope()).is_open
            assert not row_scope(tx, SearchScope(roles=("user",))).is_open
        assert RowScope().is_open

    @pytest.mark.parametrize(
        ("scope", "words"),
        [
            (SearchScope(project="castle"), "no project castle"),
            (SearchScope(conversation="nothing"), "no conversation nothing"),
            (SearchScope(conversation=""), "Several conversations"),
            (SearchScope(segment="nothing"), "no segment nothing"),
        ],
    )
    def test_a_name_that_names_nothing_or_several_says_so(self, store: Store, scope: SearchScope, words: str) -> None:
        Town(store)
        with pytest.raises(NotFoundError, match=words), store.reading() as tx:
            row_scope(tx, scope)

    def test_a_segment_of_another_conversation_is_not_there(self, store: Store) -> None:
        town = Town(store)
        elsewhere = SearchScope(segment=town.first_segment, conversation=town.garden.conversation.uid)
        with pytest.raises(NotFoundError, match="is not of conversation"), store.reading() as tx:
            row_scope(tx, elsewhere)

    def test_two_projects_of_one_name_are_named_by_their_keys(self, store: Store) -> None:
        Town(store)
        twin = Talk("twin", ProjectIdentity("path:/other/garden", "garden"))
        twin.say("zebra")
        keep(store, twin)
        with pytest.raises(NotFoundError, match=r"path:/src/garden"), store.reading() as tx:
            row_scope(tx, SearchScope(project="garden"))
        rows = read(store, row_scope, SearchScope(project="path:/other/garden"))
        assert found(store, "zebra", scope=rows) == [twin.messages[0].uid]
