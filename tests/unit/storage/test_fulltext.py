from __future__ import annotations

from dataclasses import replace

import pytest

from harken.model.conversations import MessageType, NewEntry, ProjectIdentity, Role, SearchScope, Trust
from harken.storage.entries import RecordHead, add_record_entries, row_scope
from harken.storage.ports import RowScope
from harken.storage.projects import all_projects, ensure_project
from harken.storage.sqlite import fulltext
from harken.storage.sqlite.store import SqliteStore
from harken.testing.store_conformance.asking import apply, found, keep, text_problems
from harken.testing.talk import START, Talk, talk_of

HOUSE = ProjectIdentity("k:house", "house")


class TestTwoStages:
    """Above so many matches only the rarest words drive the candidates."""

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fulltext, "MATCHES_TO_RANK", 8)

    @pytest.fixture
    def town(self, store: SqliteStore) -> dict[str, str]:
        """Thirty entries with a common word, one of them with a rare one, one with both; ids by name."""
        talks = {f"common {number}": talk_of(f"c{number}", "deploy the thing") for number in range(30)}
        talks["rare"] = talk_of("rare", "the kubernetes cluster")
        talks["both"] = talk_of("both", "deploy it to kubernetes")
        talks["here"] = talk_of("here", "deploy the house", project=HOUSE)
        talks["later"] = talk_of("later", "deploy it later", start=START.replace(year=2024))
        keep(store, *talks.values())
        return {talk.messages[0].uid: name for name, talk in talks.items()}

    def test_other_projects_are_left_out_as_they_grow(self, store: SqliteStore, town: dict[str, str]) -> None:
        with store.reading() as tx:
            scope = RowScope(without_project_ids=tuple(all_projects(tx)))
        everybody = {uid for uid, name in town.items() if name not in ("rare", "here")}
        assert set(found(store, "deploy", scope=scope)) == everybody
        keep(store, talk_of("more", "deploy another house", project=HOUSE))
        assert set(found(store, "deploy", scope=scope)) == everybody
        with store.reading() as tx:
            held = tx.text.holders(tx.connection, ["deploy", "house"], scope)
        assert (len(held.of["deploy"]), held.of["house"], held.entries) == (len(everybody), frozenset(), len(town) - 1)

    def _names(
        self, store: SqliteStore, town: dict[str, str], *terms: str, scope: SearchScope | None = None
    ) -> list[str]:
        with store.reading() as tx:
            rows = row_scope(tx, scope or SearchScope())
        return [town[uid] for uid in found(store, *terms, scope=rows)]

    def test_the_rarest_words_choose_and_the_common_ones_order(self, store: SqliteStore, town: dict[str, str]) -> None:
        assert self._names(store, town, "deploy", "kubernetes") == ["both", "rare"]

    def test_common_words_alone_still_find(self, store: SqliteStore, town: dict[str, str]) -> None:
        assert len(self._names(store, town, "deploy")) == 33

    def test_words_that_nothing_holds_do_not_hide_the_others(self, store: SqliteStore, town: dict[str, str]) -> None:
        assert "both" in self._names(store, town, "nothing", "whatsoever", "kubernetes")
        assert len(self._names(store, town, "nothing", "deploy")) == 33

    def test_a_rare_word_of_another_project_hides_nothing(self, store: SqliteStore, town: dict[str, str]) -> None:
        assert self._names(store, town, "kubernetes", "deploy", scope=SearchScope(project="house")) == ["here"]

    def test_a_rare_word_of_other_days_hides_nothing(self, store: SqliteStore, town: dict[str, str]) -> None:
        scope = SearchScope(since=START.replace(year=2024))
        assert self._names(store, town, "kubernetes", "deploy", scope=scope) == ["later"]

    def test_a_rare_word_of_other_facets_hides_nothing(self, store: SqliteStore, town: dict[str, str]) -> None:
        with store.writing() as tx:
            made = [NewEntry("", "deploy the saved thing", ("category:fact", "tag:ops"))]
            add_record_entries(tx, [(RecordHead("memory", "saved", START), made)])
        named = {**town, "saved": "saved"}
        for facets, expected in ((("category:fact", "tag:ops"), ["saved"]), (("category:fact", "tag:home"), [])):
            scope = SearchScope(facets=facets)
            assert self._names(store, named, "kubernetes", "deploy", scope=scope) == expected
        said = self._names(store, named, "deploy", scope=SearchScope(without_sources=("memory",)))
        assert "saved" not in said
        assert len(said) == 33

    def test_a_conversation_is_ranked_whole(self, store: SqliteStore, town: dict[str, str]) -> None:
        scope = SearchScope(conversation="c3")
        assert self._names(store, town, "kubernetes", "deploy", scope=scope) == ["common 3"]

    def test_a_common_word_counts_in_any_form_and_place(self, store: SqliteStore) -> None:
        fill = [talk_of(f"c{number}", "server in 北京") for number in range(30)]
        plain, form, chinese = (
            talk_of("p", "kubernetes"),
            talk_of("f", "kubernetes servers"),
            talk_of("z", "kubernetes 北京"),
        )
        keep(store, *fill, plain, form, chinese)
        order = found(store, "kubernetes", "server")
        assert order[0] == form.messages[0].uid
        order = found(store, "kubernetes", "北京")
        assert order[0] == chinese.messages[0].uid


class TestHolders:
    """Who of some conversations has a word: their entries are listed once, in place of looking among them per word."""

    def test_a_list_of_the_conversations_entries_tells_what_the_tokens_do(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        talks = [talk_of(f"c{number}", "deploy the thing", "the cluster", "deploy it again") for number in range(4)]
        keep(store, *talks)
        scopes = [RowScope(conversation_ids=(1, 3)), RowScope(conversation_ids=(2,), roles=("user",)), RowScope()]
        told: list[list[dict[str, frozenset[int]]]] = []
        monkeypatch.setattr(fulltext, "_FEW_ENTRIES", 0)
        for most in (0, 20_000):
            monkeypatch.setattr(fulltext, "MATCHES_TO_RANK", most)
            with store.reading() as tx:
                asked = (["deploy", "cluster", "giraffe"] for _ in range(8))
                told += [[tx.text.holders(tx.connection, terms, scope).of for scope in scopes] for terms in asked]
        assert all(each == told[0] for each in told)
        assert [len(found["deploy"]) for found in told[0]] == [4, 2, 8]
        assert [len(found["giraffe"]) for found in told[0]] == [0, 0, 0]


class TestWhatWasSaved:
    """What others have saved is left out by a list of their entries: their token stands in all that they have said."""

    def test_a_list_of_others_entries_tells_what_their_tokens_do(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with store.writing() as tx:
            house = ensure_project(tx, HOUSE)
            for number in range(12):
                head = RecordHead("memory", f"m{number}", START, project_id=house if number % 3 else None)
                add_record_entries(tx, [(head, [NewEntry("", f"{'deploy ' * (1 + number % 5)}the thing {number}")])])
        scope = RowScope(sources=("memory",), without_project_ids=(house,))
        told = []
        for few in (1_000, 0):
            monkeypatch.setattr(fulltext, "_FEW_ENTRIES", few)
            with store.reading() as tx:
                best = [tx.text.search(tx.connection, ["deploy", "thing"], scope, most) for most in (1, 3, 9)]
                told.append((best, tx.text.holders(tx.connection, ["deploy", "giraffe"], scope).of))
        assert told[0] == told[1]
        assert [len(found) for found in told[0][0]] == [1, 3, 4]
        assert [len(ids) for ids in told[0][1].values()] == [4, 0]


class TestRoles:
    """A role that is asked for again is looked up in a list instead of the index."""

    @pytest.mark.parametrize("few_of_it", [False, True])
    def test_a_list_finds_what_the_index_does_and_grows(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch, few_of_it: bool
    ) -> None:
        monkeypatch.setattr(fulltext, "_FEW_ENTRIES", 0)
        talk = Talk("c")
        for number in range(24):
            is_answer = number == 7 if few_of_it else number % 2 == 0
            talk.say(f"{'deploy ' * (number % 5 + 1)} number {number}", Role.ASSISTANT if is_answer else Role.USER)
        keep(store, talk)
        scope = RowScope(roles=("assistant",))

        def best() -> list[int]:
            with store.reading() as tx:
                rows = tx.text.search(tx.connection, ["deploy"], scope, 3)
            return [entry_id for entry_id, _ in rows]

        by_index = best()
        assert len(by_index) == (1 if few_of_it else 3)
        assert [best() for _ in range(8)] == [by_index] * 8
        with store.reading() as tx:
            assert tx.text.inside_roles(tx.connection, ("assistant",)) is not None
        said = talk.say("deploy " * 9, Role.ASSISTANT)
        apply(store, [said])
        assert len(best()) == (2 if few_of_it else 3)
        assert best()[0] not in by_index


class TestDamage:
    def test_an_index_that_differs_from_the_rows_is_found_and_made_anew(self, store: SqliteStore) -> None:
        talk = talk_of("c", "a zebra", "a giraffe")
        keep(store, talk)
        with store.writing() as tx:
            tx.connection.exec_driver_sql("UPDATE entries SET text = 'an antelope' WHERE text = 'a zebra'")
        assert text_problems(store) == ["The full-text index differs from the rows."]
        with store.writing() as tx:
            tx.text.rebuild(tx.connection)
        assert text_problems(store) == []
        assert len(found(store, "antelope")) == 2
        assert found(store, "zebra") == []

    def test_an_entry_that_only_the_index_knows_harms_no_search(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fulltext, "MATCHES_TO_RANK", 1)
        keep(store, talk_of("c", "a zebra"), talk_of("d", "a rare zebra"), talk_of("e", "a rare giraffe"))
        with store.writing() as tx:
            tx.connection.exec_driver_sql("DELETE FROM entries WHERE text = 'a rare giraffe'")
        with store.reading() as tx:
            assert len(tx.text.search(tx.connection, ["rare", "zebra", "giraffe"], RowScope(), 10)) >= 1


class TestPieces:
    def test_a_message_among_others_makes_one_piece_of_the_index(self, store: SqliteStore) -> None:
        """Each piece is to be merged with others later, and searched until then."""
        talk = keep(store, talk_of("c", "one", "two", "three"))
        before = _pieces(store)
        apply(store, [talk.say("four", Role.ASSISTANT)])
        assert _pieces(store) == before + 1
        assert text_problems(store) == []
        assert len(found(store, "four")) == 3

    def test_pieces_are_merged_in_steps_until_few_are_left(self, store: SqliteStore) -> None:
        """Every word of a query is looked for in each of them."""
        talk = keep(store, talk_of("c", "one"))
        for number in range(40):
            apply(store, [talk.say(f"number {number} of the kettles", Role.USER)])
        before, hits = _pieces(store), found(store, "kettles")
        steps = 1
        while _merged_a_little(store):
            steps += 1
        assert _pieces(store) < 4 < before
        assert 1 < steps < 20
        assert found(store, "kettles") == hits
        assert text_problems(store) == []

    def test_what_is_said_last_is_indexed_without_being_read_back(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Several conversations at once make one piece all the same."""
        talks = [keep(store, talk_of(name, "one", "two", "три", "四五", project=HOUSE)) for name in ("c", "d")]
        before = _pieces(store)
        monkeypatch.setattr(fulltext, "words_of", None)
        said = [
            replace(talk.say(text, role, type=kind, author=author), trust=trust)
            for talk in talks
            for text, role, kind, author, trust in (
                ("six 七", Role.USER, MessageType.TEXT, "Melanie", Trust.OWNER),
                ("ls zebra", Role.ASSISTANT, MessageType.TOOL_CALL, None, Trust.AGENT),
                ("seven", Role.ASSISTANT, MessageType.TEXT, None, Trust.UNTRUSTED),
            )
        ]
        apply(store, said)
        monkeypatch.undo()
        assert _pieces(store) == before + 1
        assert text_problems(store) == []
        assert (len(found(store, "seven")), len(found(store, "七"))) == (2 * 3, 2 * 4)
        assert len(found(store, "zebra")) == 2


def _pieces(store: SqliteStore) -> int:
    with store.reading() as tx:
        pieces = tx.connection.exec_driver_sql("SELECT count(DISTINCT segid) FROM entry_index_idx").scalar_one()
    return int(pieces)


def _merged_a_little(store: SqliteStore) -> bool:
    with store.writing() as tx:
        return tx.text.merge(tx.connection)


class TestUsedIndexes:
    def test_neighbours_are_found_by_the_index_of_their_conversation(self, store: SqliteStore) -> None:
        """Else every recorded message reads the whole table."""
        talk = Talk("c")
        talk.say("one")
        keep(store, talk)
        statements: list[str] = []
        with store.writing() as tx:
            driver = tx.connection.connection.driver_connection
            assert driver is not None
            driver.set_trace_callback(statements.append)
        apply(store, [talk.say("two", Role.ASSISTANT)])
        driver.set_trace_callback(None)
        asked = [statement for statement in statements if statement.startswith("SELECT") and "is_turn" in statement]
        assert asked
        with store.reading() as tx:
            for statement in asked:
                plan = " ".join(row[3] for row in tx.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}"))
                assert "SCAN entries" not in plan
                assert "ix_entries_created" not in plan
                assert "ix_entries_turns" in plan
