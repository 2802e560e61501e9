"""Words find the entries that hold them, and less surely those that stand beside them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from harken.model.conversations import MessageType, Role, SearchScope
from harken.storage.entries import row_scope
from harken.storage.facts import Neighbours, neighbours
from harken.storage.ports import RowScope, Store
from harken.testing.store_conformance.asking import (
    EVERYWHERE,
    apply,
    differing_traits,
    entry_ids,
    found,
    keep,
    quoting,
    text_problems,
)
from harken.testing.talk import START, Talk, talk_of

# Words that mean something to SQL, to a full-text query language, or to nobody.
SYNTAX = (
    *('"', "'", "''; DROP TABLE entries; --", "zebra OR giraffe", "zebra AND NOT giraffe", "NEAR(zebra giraffe)"),
    *("own : zebra", "zebra*", "^zebra", "zebra:*", "(zebra", "zebra)", "{own} : zebra", "zebra & | ! <-> giraffe"),
    *("%_\\", "zebra\x00giraffe", "\ud800zebra", "", "   ", "🦓", "-- zebra", "$1 ?1 :a {0}"),
)


class FullTextTests:
    """Inherited by `StoreConformance`."""

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("The Zebra crossed the road.", "zebra ZEBRA"),
            ("we deployed three servers", "deploying server"),
            ("我想知道北京天气怎么样", "北京 天气 京天"),
            ("東京でラーメンを食べた", "ラーメン"),
            ("서울에서 김치를 먹었다", "김치"),
            ("Завтра едем в Москву на поезде", "москва ПОЕЗДА"),
        ],
    )
    def test_a_word_finds_its_entry_in_any_case_form_and_script(self, store: Store, text: str, words: str) -> None:
        talk = keep(store, talk_of("one", text), talk_of("other", "上海的早餐很好吃"), talk_of("third", "nothing"))
        for word in words.split():
            assert found(store, word) == [talk.messages[0].uid]

    def test_any_of_several_words_is_enough_and_more_are_better(self, store: Store) -> None:
        one, both = talk_of("one", "zebra at night"), talk_of("both", "zebra and giraffe")
        keep(store, one, both, talk_of("none", "nothing of the kind"))
        assert found(store, "zebra", "giraffe") == [both.messages[0].uid, one.messages[0].uid]

    def test_a_rare_word_weighs_more_than_a_common_one(self, store: Store) -> None:
        talks = [talk_of(f"common {number}", "a zebra was seen") for number in range(8)]
        rare = talk_of("rare", "a giraffe was seen")
        keep(store, *talks, rare)
        assert found(store, "zebra", "giraffe")[0] == rare.messages[0].uid

    def test_better_entries_have_higher_scores_and_the_limit_keeps_the_best(self, store: Store) -> None:
        keep(store, *(talk_of(f"t{number}", "zebra " + "and more words " * number) for number in range(6)))
        with store.reading() as tx:
            scores = [score for _, score in tx.text.search(tx.connection, ["zebra"], RowScope(), 10)]
        assert scores == sorted(scores, reverse=True)
        assert len(set(scores)) > 1
        everything = found(store, "zebra")
        assert len(everything) == 6
        assert found(store, "zebra", limit=2) == everything[:2]

    def test_no_words_find_nothing(self, store: Store) -> None:
        keep(store, talk_of("t", "a zebra"))
        assert found(store) == []

    def test_two_neighbours_on_each_side_are_found_and_no_more(self, store: Store) -> None:
        talk = keep(store, talk_of("row", "one", "two", "three", "zebra", "five", "six", "seven"))
        assert set(found(store, "zebra")) == {message.uid for message in talk.messages[1:6]}

    def test_own_words_rank_above_those_of_neighbours_and_alone_without_context(self, store: Store) -> None:
        talk = keep(store, talk_of("row", "one", "two", "zebra", "four", "five"))
        assert found(store, "zebra")[0] == talk.messages[2].uid
        assert found(store, "zebra", with_context=False) == [talk.messages[2].uid]
        assert found(store, "2023", with_context=False) == []

    def test_neighbours_are_of_the_same_conversation(self, store: Store) -> None:
        keep(store, talk_of("one", "a zebra"), other := talk_of("two", "a giraffe"))
        assert other.messages[0].uid not in found(store, "zebra")

    def test_tools_are_nobodys_neighbours(self, store: Store) -> None:
        talk = Talk("tools")
        talk.say("one")
        talk.say("grep zebra", Role.ASSISTANT, type=MessageType.TOOL_CALL)
        call, last = talk.messages[1], talk.say("giraffe")
        keep(store, talk)
        assert found(store, "zebra") == [call.uid]
        assert set(found(store, "giraffe")) == {talk.messages[0].uid, last.uid}

    def test_the_holders_of_each_word_say_it_themselves(self, store: Store) -> None:
        talk = keep(store, talk_of("garden", "apple and pear", "plum", "pears"), talk_of("orchard", "apple"))
        apple, plum, pears = entry_ids(store, talk.messages)
        terms = ["apple", "pear", "?!", "cherry", "plum"]
        days = (START - timedelta(days=1), START + timedelta(days=1))
        for asked in (
            SearchScope(conversation=talk.uid),
            SearchScope(segment=talk.segment.uid, sources=("message",)),
            SearchScope(conversation=talk.uid, since=days[0], until=days[1]),
        ):
            with store.reading() as tx:
                holding = tx.text.holders(tx.connection, terms, row_scope(tx, asked))
                none = tx.text.holders(tx.connection, [], row_scope(tx, asked))
            said = {"apple": {apple}, "pear": {apple, pears}, "?!": set(), "cherry": set(), "plum": {plum}}
            assert holding.of == said
            assert (holding.entries, none.entries, none.of) == (3, 3, {})

    def test_a_scope_is_counted_only_where_a_word_has_many_holders(self, store: Store) -> None:
        talk = keep(store, talk_of("garden", "apple and pear", "plum", "pears"))
        with store.reading() as tx:
            scope = row_scope(tx, SearchScope(segment=talk.segment.uid, sources=("message",)))
            counted = {few: tx.text.holders(tx.connection, ["apple", "pear"], scope, few).entries for few in (1, 2)}
        assert counted == {1: 3, 2: 0}

    def test_a_word_that_more_have_than_are_wanted_is_left_out(self, store: Store) -> None:
        talk = keep(store, talk_of("garden", "apple and pear", "apples", "pear apple", "plum"))
        one, _, three, four = entry_ids(store, talk.messages)
        for scope in (SearchScope(), SearchScope(conversation=talk.uid)):
            with store.reading() as tx:
                held = tx.text.holders(tx.connection, ["apple", "pear", "plum", "fig"], row_scope(tx, scope), most=2)
            assert held.of == {"pear": {one, three}, "plum": {four}, "fig": set()}
            assert held.entries >= 4

    def test_turns_know_what_stands_beside_them(self, store: Store) -> None:
        talk = talk_of("garden", "first of all", "and then?")
        talk.say("ls garden", Role.ASSISTANT, type=MessageType.TOOL_CALL)
        talk.say("at last", Role.ASSISTANT)
        keep(store, talk, talk_of("elsewhere", "alone"))
        first, then, tool, last = entry_ids(store, talk.messages)
        with store.reading() as tx:
            beside = neighbours(tx, [last, then, tool, first])
        assert beside == {
            first: Neighbours(after=then),
            then: Neighbours(before=first, after=last),
            last: Neighbours(before=then, follows_question=True),
        }
        assert differing_traits(store) == []

    def test_the_date_in_words_finds(self, store: Store) -> None:
        may, june = talk_of("may", "zebra"), talk_of("june", "zebra", start=START.replace(month=6, day=24))
        keep(store, may, june)
        assert found(store, "zebra", "May", "2023")[0] == may.messages[0].uid
        assert found(store, "24", "June")[0] == june.messages[0].uid

    def test_an_author_is_found_by_name(self, store: Store) -> None:
        talk = Talk("names")
        by_melanie = talk.say("I paint.", author="Melanie")
        keep(store, talk, talk_of("other", "who paints"))
        assert found(store, "melanie", with_context=False) == [by_melanie.uid]

    def test_words_in_their_order_are_found_as_a_quotation(self, store: Store) -> None:
        quoted = keep(
            store,
            talk_of("quoted", "He said: the early, small bird!", "What of it?"),
            talk_of("other", "bird small early the"),
        )
        expected = entry_ids(store, quoted.messages[:1])
        with store.reading() as tx:
            assert quoting(tx, "early small bird") == expected
            assert quoting(tx, " ?! ") == []

    @pytest.mark.parametrize("quote", ["where is the small bird", "Where's the small bird", "is it", "the small bird"])
    def test_a_quotation_may_be_full_of_common_words(self, store: Store, quote: str) -> None:
        quoted = keep(
            store,
            talk_of("quoted", "Well, where is the small bird? Where's the small bird? Is it here?"),
            talk_of("turned", "a small one is the bird, where it is"),
        )
        expected = entry_ids(store, quoted.messages)
        with store.reading() as tx:
            assert quoting(tx, quote) == expected
            assert quoting(tx, "where is the small beast") == []

    def test_characters_of_chinese_in_another_order_are_another_word(self, store: Store) -> None:
        keep(store, talk_of("chinese", "我想知道北京天气怎么样"))
        assert found(store, "京北") == []

    @pytest.mark.parametrize("term", SYNTAX, ids=ascii)
    def test_no_query_is_taken_for_syntax(self, store: Store, term: str) -> None:
        keep(store, talk_of("t", "one two three"))
        assert found(store, term) == []
        assert len(found(store, term, "three")) == 1
        with store.reading() as tx:
            assert quoting(tx, term) == []

    def test_no_text_is_taken_for_syntax(self, store: Store) -> None:
        talk = Talk("syntax")
        for term in SYNTAX:
            talk.say(term.encode("utf-8", "replace").decode().replace("\x00", " "), author='O\'Neil "x"')
        keep(store, talk)
        assert text_problems(store) == []
        apply(store, [talk.forget()])
        assert found(store, "zebra") == []
        assert text_problems(store) == []

    def test_a_message_that_arrives_in_the_middle_becomes_a_neighbour(self, store: Store) -> None:
        talk = keep(store, talk_of("row", "one", "two", "three", "four"))
        second, third = talk.messages[1], talk.messages[2]
        middle = talk.say("zebra", position=(second.position + third.position) // 2)
        apply(store, [middle])
        assert set(found(store, "zebra")) == {message.uid for message in talk.messages}
        # "two" is now three places away from "four".
        assert set(found(store, "two")) == {talk.messages[0].uid, second.uid, middle.uid, third.uid}
        assert text_problems(store) == []

    @pytest.mark.parametrize("hours", [0, 1], ids=["the same moment", "backwards"])
    def test_neighbours_are_those_of_the_order_whatever_the_times(self, store: Store, hours: int) -> None:
        talk = Talk("stamped")
        for number, text in enumerate(("one", "two", "three", "four", "five")):
            talk.say(text, at=START - timedelta(hours=hours * number))
        keep(store, talk)
        assert set(found(store, "one")) == {message.uid for message in talk.messages[:3]}
        apply(store, [talk.say("six", at=START - timedelta(days=9 * hours))])
        assert set(found(store, "six")) == {message.uid for message in talk.messages[3:]}
        assert text_problems(store) == []

    def test_the_holders_of_each_word_have_it_themselves_and_are_of_the_scope(self, store: Store) -> None:
        one = talk_of("one", "a zebra at night", "nothing of the kind", "Zebras and a giraffe")
        other = talk_of("other", "a zebra elsewhere")
        keep(store, one, other)
        first, _, third, elsewhere = entry_ids(store, [*one.messages, *other.messages])
        with store.reading() as tx:
            everywhere = tx.text.holders(tx.connection, ("zebra", "giraffe", "okapi"), EVERYWHERE).of
            assert everywhere == {"zebra": {first, third, elsewhere}, "giraffe": {third}, "okapi": set()}
            late = row_scope(tx, SearchScope(since=one.messages[2].created_at))
            assert tx.text.holders(tx.connection, ("zebra",), late).of["zebra"] & {first, third} == {third}

    def test_no_word_whose_holders_are_asked_for_is_taken_for_syntax(self, store: Store) -> None:
        talk = keep(store, talk_of("syntax", "zebra", "giraffe"))
        known = set(entry_ids(store, talk.messages))
        with store.reading() as tx:
            held = tx.text.holders(tx.connection, SYNTAX, EVERYWHERE).of
        assert set(held) == set(SYNTAX)
        assert all(found <= known for found in held.values())

    def test_rebuilding_changes_no_answer(self, store: Store) -> None:
        talk, other = talk_of("row", "one", "two", "zebra", "four", "five", "six"), talk_of("other", "a zebra and more")
        keep(store, talk, other)
        before = found(store, "zebra", "six")
        with store.writing() as tx:
            tx.text.rebuild(tx.connection)
        assert found(store, "zebra", "six") == before
        assert text_problems(store) == []
