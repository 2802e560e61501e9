from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.search.query import (
    MAX_QUERY_TOKENS,
    MAX_TERMS,
    best_passage,
    excerpt,
    last_question,
    parse_query,
    whole_words,
)
from harken.text import tokens
from harken.text.shown import one_line
from harken.text.words import STOP_WORDS


class TestTerms:
    @pytest.mark.parametrize(
        ("text", "terms"),
        [
            ("Where did we put the Kubernetes config?", ("put", "kubernetes", "config")),
            ("KUBERNETES kubernetes Kubernetes", ("kubernetes",)),
            ("what is it", ("what", "is", "it")),
            ("don't panic", ("panic",)),
            ("O'Brien's files", ("o'brien", "files")),
            ("the gateway’s timeout", ("gateway", "timeout")),
            ("pourquoi l'erreur d'installation ?", ("erreur", "installation")),
            ("dove ho messo il log dell'errore?", ("messo", "log", "errore")),
            ("foo_bar v2.0", ("foo_bar", "v2", "0")),
            ("deploy of 2026-08-09", ("deploy", "2026", "08", "09", "9", "august")),
            ("deploy of Aug. 9th", ("deploy", "aug", "9th", "august")),
            ("что ты думаешь о Москве", ("думаешь", "москве")),
            ("北京天气怎么样", ("北京", "京天", "天气", "气怎", "怎么", "么样")),
            ("去 x北京y", ("去", "北京", "x", "y")),
            ("雨", ("雨",)),
            ("naïve café", ("naïve", "café")),
        ],
    )
    def test_a_query_has_these_terms(self, text: str, terms: tuple[str, ...]) -> None:
        assert parse_query(text).terms == terms

    def test_no_query_has_more_terms_than_can_be_looked_up(self) -> None:
        assert len(parse_query(" ".join(f"word{number}" for number in range(500))).terms) == MAX_TERMS

    def test_a_question_behind_a_long_paste_is_looked_up(self) -> None:
        pasted = " ".join(f"word{number}" for number in range(60))
        terms = parse_query(f"Zebras! {pasted} Where are the crossings?").terms
        assert (terms[0], terms[-1], len(terms)) == ("zebras", "crossings", MAX_TERMS)

    @pytest.mark.parametrize("text", ["", "   ", "?!", "\n\t", "🦓", "---"])
    def test_a_query_without_a_word_asks_for_nothing(self, text: str) -> None:
        query = parse_query(text)
        assert (query.text, query.terms, query.words) == ("", (), frozenset())

    @pytest.mark.parametrize("text", ["a_" * 700, "x/1." * 300, "plan_of_the_harbour/" * 60, "港口" * 300])
    def test_no_phrase_is_longer_than_full_text_reads_at_once(self, text: str) -> None:
        query = parse_query(text)
        assert {len(phrase) <= 150 for phrase in (query.quote, *query.terms)} == {True}
        assert query.quote
        assert text.startswith(query.quote)

    @pytest.mark.parametrize("word", ["0123456789abcdef" * 20, "привет" * 60])
    def test_a_long_word_stays_whole(self, word: str) -> None:
        assert parse_query(word).terms == (word,)


class TestText:
    @pytest.mark.parametrize(
        "text",
        [
            "what failed? <system-reminder>secret plan</system-reminder>",
            "<environment_context>\n<cwd>/secret plan</cwd>\n</environment_context>\nwhat failed?",
            'what <harken-recall id="1">secret plan</harken-recall> failed?',
            "what <harken-recall-bcdfgh>\nsecret plan\n</harken-recall-bcdfgh> failed?",
            "what failed? ```python\nsecret = plan()\n```",
            "<ide_opened_file>secret plan</ide_opened_file>what failed?",
        ],
    )
    def test_scaffolding_and_code_are_no_part_of_it(self, text: str) -> None:
        query = parse_query(text)
        assert query.text.split() == ["what", "failed?"]
        assert query.terms == ("failed",)

    def test_where_nothing_else_is_there_the_code_is_the_query(self) -> None:
        assert parse_query("```\nimport zebra\n```").terms == ("import", "zebra")

    def test_a_long_text_keeps_both_ends(self) -> None:
        query = parse_query("alpha " + "filler words " * 3000 + " omega")
        assert query.text.startswith("alpha")
        assert query.text.endswith("omega")
        assert tokens.estimate(query.text) <= MAX_QUERY_TOKENS * 1.1

    def test_blanks_are_evened_out(self) -> None:
        assert parse_query("  a   zebra \n crossing ").text == "a zebra crossing"


@pytest.mark.parametrize("opening", ["<system-reminder>", "<ide_selection "])
def test_openings_without_an_end_are_not_looked_through_for_each_of_them(opening: str) -> None:
    """A pasted log has thousands; each took as long as all of the text behind it, and a daemon stood still."""
    assert "zebra" in parse_query(opening * 100_000 + "zebra").terms


@given(st.text(max_size=300))
def test_any_text_is_taken_apart(text: str) -> None:
    query = parse_query(text)
    assert len(query.terms) == len(set(query.terms)) <= MAX_TERMS
    assert all(term == term.lower() and term.strip() for term in query.terms)
    assert bool(query.text) == bool(query.words)
    assert not (query.terms and not query.text)


@given(st.text(max_size=100))
def test_taking_apart_what_was_taken_apart_changes_nothing(text: str) -> None:
    once = parse_query(text)
    if "<" not in text and "`" not in text:
        assert parse_query(once.text).terms == once.terms


class TestWholeWords:
    @pytest.mark.parametrize(
        ("query", "text", "found"),
        [
            ("Zebra", "two ZEBRAs, one zebra!", True),
            ("zebra", "zebras", False),
            ("art", "start", False),
            ("art", "state-of-the-art", True),
            ("don't", "I don't", True),
            ("москва", "Москва!", True),
            ("北京", "我在北京工作", True),
            ("deploy", "我deploy了", True),
            ("sure.", "100% sure", True),
        ],
    )
    def test_a_word_is_found_in_any_case_and_not_inside_another(self, query: str, text: str, found: bool) -> None:
        (pattern,) = whole_words(query).values()
        assert bool(pattern.search(text)) is found

    def test_each_word_is_looked_for_once(self) -> None:
        assert list(whole_words("the Zebra, the zebra")) == ["the", "zebra"]
        assert whole_words("?!") == {}


class TestStopWords:
    def test_stop_words_are_words_in_lower_case(self) -> None:
        assert all(word == word.lower().strip() for word in STOP_WORDS)


class TestPassages:
    FILLER = "Nothing of note was said in this sentence, and it goes on for a while. " * 60

    def test_words_are_found_whatever_their_letters_are_and_not_inside_of_others(self) -> None:
        head = "İİİİ first of all. " + self.FILLER * 2
        text = f"{head} The ferry to İSTANBUL leaves at nine. {self.FILLER * 2}"
        assert "İSTANBUL leaves" in best_passage(text, ["istanbul"], 24)
        assert "Megaferry" not in best_passage(f"{self.FILLER} Megaferry {text}", ["ferry"], 24)

    def test_a_short_text_is_its_own_passage(self) -> None:
        assert best_passage("a zebra", ["giraffe"], 96) == "a zebra"

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_it_is_where_most_of_the_words_are(self, place: int) -> None:
        parts = [self.FILLER, self.FILLER]
        parts.insert(place, "The zebras were painted by Melanie on a Tuesday. ")
        text = "A zebra! " + "".join(parts)
        assert "zebras were painted by Melanie" in best_passage(text, ["zebra", "painting", "melanie"], 96)

    def test_a_text_without_any_of_the_words_gives_its_head(self) -> None:
        passage = best_passage("First of all. " + self.FILLER, ["zebra"], 96)
        assert passage.startswith("First of all.")

    def test_words_are_found_in_scripts_without_spaces(self) -> None:
        text = "今天我们谈了很多别的事情。" * 200 + "北京天气很好。" + "今天我们谈了很多别的事情。" * 200
        assert "北京天气" in best_passage(text, ["北京", "天气"], 96)

    def test_an_excerpt_is_one_line_of_it_cut_where_it_shows(self) -> None:
        text = f"Great question!\n{self.FILLER}We take PostgreSQL for its row locks. {self.FILLER}"
        found = excerpt(text, ["postgres", "locks"], 200)
        assert "We take PostgreSQL for its row locks." in found
        assert (found[0], found[-1], len(found)) == ("…", "…", 200)
        assert excerpt(text, ["question"], 200) == excerpt(text, ["zebra"], 200) == one_line(text, 200)
        assert excerpt("A zebra.\nTwo.", ["two"], 200) == "A zebra. Two."
        code = "```python\n" + "postgres = locks(postgres)\n" * 9 + "```\n"
        assert "We take PostgreSQL for its row locks." in excerpt(code + text, ["postgres", "locks"], 200)
        assert "postgres = locks" in excerpt(code, ["postgres", "locks"], 200)

    @given(st.text(max_size=900), st.lists(st.text(min_size=1, max_size=8), max_size=5), st.integers(8, 200))
    def test_an_excerpt_is_never_longer_than_it_may_be(self, text: str, terms: list[str], most: int) -> None:
        assert len(excerpt(text, terms, most)) <= most

    @given(st.text(max_size=3000), st.lists(st.text(min_size=1, max_size=8), max_size=5), st.integers(8, 120))
    def test_it_never_takes_more_than_it_may(self, text: str, terms: list[str], most: int) -> None:
        assert tokens.estimate(best_passage(text, terms, most)) <= most


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Nice! Where did you go? I was at home.", "Where did you go?"),
        ("When was it? And who came?", "And who came?"),
        ("Und wann war das？", "Und wann war das？"),
        ("I asked where he was.", ""),
        ("See https://example.org/?q=1 for more.", ""),
        ("", ""),
    ],
)
def test_the_last_question_of_a_text(text: str, question: str) -> None:
    assert last_question(text) == question
