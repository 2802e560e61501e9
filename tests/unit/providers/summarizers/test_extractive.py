from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from harken.model.conversations import ExchangeStatus, Role
from harken.providers.embedder import Vectors
from harken.providers.summarizer import EXTRACTIVE, ExchangeText, Spoken, Summary, ToolUse, tool_batches
from harken.providers.summarizers.extractive import ExtractiveSummarizer, choose

PIPES = [
    "The kitchen tap drips at night.",
    "A plumber looked at the kitchen tap and its pipes.",
    "The pipes under the kitchen tap are made of lead.",
    "My aunt sent a postcard from Lisbon.",
    "The kitchen pipes will be replaced on Monday.",
    "Sure!",
]


def _exchange(asked: str, answered: str = "", **more: object) -> ExchangeText:
    said = [Spoken(Role.USER, asked), *([Spoken(Role.ASSISTANT, answered)] if answered else [])]
    return ExchangeText(tuple(said), **more)  # type: ignore[arg-type]


def _axes(texts: Sequence[str]) -> Vectors:
    """All alike but the fourth, as an embedding model might see the sentences about pipes."""
    rows = np.array([[1.0, 0.02 * number] if "aunt" not in text else [0.0, 1.0] for number, text in enumerate(texts)])
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


class TestChoosing:
    def test_sentences_that_share_the_subject_are_chosen_in_their_order(self) -> None:
        chosen = choose(PIPES, 3)
        assert chosen == sorted(chosen)
        assert 3 not in chosen
        assert 5 not in chosen

    def test_the_same_is_not_said_twice(self) -> None:
        twice = [PIPES[1], PIPES[1], PIPES[4], PIPES[2]]
        assert not {0, 1} <= set(choose(twice, 2))

    def test_vectors_of_a_model_are_used_where_there_is_one(self) -> None:
        asked: list[Sequence[str]] = []

        def embed(texts: Sequence[str]) -> Vectors:
            asked.append(texts)
            return _axes(texts)

        assert choose(PIPES, 1, embed) != [3]
        assert asked == [PIPES[:5]]

    def test_few_sentences_are_taken_as_they_are_without_asking_a_model(self) -> None:
        def embed(_texts: Sequence[str]) -> Vectors:
            raise AssertionError

        assert choose(PIPES[:2], 3, embed) == [0, 1]
        assert choose([], 1, embed) == []

    @pytest.mark.parametrize("sentences", [["...", "?!", "-"], ["the", "of", "and"]])
    def test_sentences_without_a_word_that_says_something_are_no_error(self, sentences: list[str]) -> None:
        assert choose(sentences, 1) == [0]

    def test_a_text_in_chinese_has_a_subject_too(self) -> None:
        text = [
            "厨房的水龙头在漏水。",
            "水管工检查了厨房的水龙头和水管。",
            "我阿姨寄来了明信片。",
            "厨房的水管要更换。",
        ]
        assert 2 not in choose(text, 2)


class TestExchanges:
    def test_what_was_asked_and_what_came_of_it(self) -> None:
        summary = ExtractiveSummarizer().exchange(
            _exchange("Hi! Why does the test of the importer fail?", "It fails because the date is in local time.")
        )
        assert summary == Summary(
            "Why does the test of the importer fail? → It fails because the date is in local time.", model=EXTRACTIVE
        )

    def test_speakers_are_named_where_they_are_known(self) -> None:
        said = (Spoken(Role.USER, "I adopted a cat.", "Ann"), Spoken(Role.ASSISTANT, "What is its name?", "Bob"))
        summary = ExtractiveSummarizer().exchange(ExchangeText(said))
        assert summary.text == "Ann: I adopted a cat. → Bob: What is its name?"

    def test_the_last_answer_counts_not_what_was_announced(self) -> None:
        said = [("Fix it.", Role.USER), ("I will look at it.", Role.ASSISTANT), ("The bug is fixed.", Role.ASSISTANT)]
        exchange = ExchangeText(tuple(Spoken(role, text) for text, role in said))
        assert ExtractiveSummarizer().exchange(exchange).text == "Fix it. → The bug is fixed."

    def test_a_failure_is_said(self) -> None:
        failed = _exchange("Fix it.", status=ExchangeStatus.FAILED, error="the model\ndid not answer")
        assert ExtractiveSummarizer().exchange(failed).text == "Fix it. → failed: the model did not answer"

    def test_without_an_answer_the_tools_tell_what_was_done(self) -> None:
        uses = tuple(ToolUse(name, "…") for name in ("bash", "read", "bash"))
        assert ExtractiveSummarizer().exchange(_exchange("Fix it.", tools=uses)).text == "Fix it. → bash ×2, read"

    def test_nothing_said_gives_nothing(self) -> None:
        nothing = ExtractiveSummarizer()
        assert nothing.exchange(ExchangeText(())) == Summary("")
        assert nothing.conversation([]) == nothing.segment([]) == Summary("")
        assert nothing.tools([]) == []


class TestConversations:
    def test_three_sentences_and_the_first_request_as_title(self) -> None:
        exchanges = [_exchange("Hello!"), *(_exchange(sentence, "Noted.") for sentence in PIPES)]
        summary = ExtractiveSummarizer().conversation(exchanges)
        assert summary.title == "The kitchen tap drips at night"
        assert sum(sentence in summary.text for sentence in PIPES) == 3
        assert "Lisbon" not in summary.text

    def test_a_sentence_that_ends_with_a_colon_gets_no_full_stop(self) -> None:
        exchange = _exchange("How do I run the migration?", "The migration is run by these commands:")
        assert ExtractiveSummarizer().conversation([exchange]).text.endswith("is run by these commands:")

    def test_a_long_title_ends_with_a_word(self) -> None:
        title = ExtractiveSummarizer().conversation([_exchange("Could you please explain " + "very " * 20)]).title
        assert title.endswith("very…")
        assert len(title) <= 60

    def test_a_title_in_chinese_is_cut_by_characters(self) -> None:
        title = ExtractiveSummarizer().conversation([_exchange("水管工检查了厨房的水龙头和水管" * 6)]).title
        assert len(title) == 60

    def test_summaries_of_exchanges_stand_for_their_words(self) -> None:
        exchanges = [_exchange("Something else.", summary=sentence) for sentence in PIPES[:2]]
        assert ExtractiveSummarizer().segment(exchanges).text == " ".join(PIPES[:2])

    def test_a_conversation_of_a_year_is_sampled(self) -> None:
        exchanges = [_exchange(f"Question number {number} about pipes?") for number in range(1000)]
        chosen = [int(number) for number in re.findall(r"number (\d+)", ExtractiveSummarizer().segment(exchanges).text)]
        assert len(chosen) == 3
        assert chosen[0] == 0
        assert set(chosen) <= {place * 999 // 59 for place in range(60)}


class TestTools:
    def test_each_call_is_told_with_the_line_that_matters(self) -> None:
        uses = [
            ToolUse("bash", "make\ntest", "collected 3 items\nError: no such table\nmake: *** stopped"),
            ToolUse("read", "/etc/hosts"),
            ToolUse("bash", "wc -l", "warming up\n120 lines\n"),
        ]
        assert [summary.text for summary in ExtractiveSummarizer().tools(uses)] == [
            "bash(make test) → Error: no such table",
            "read(/etc/hosts)",
            "bash(wc -l) → 120 lines",
        ]

    @pytest.mark.parametrize("count", [0, 1, 4, 5, 10, 11, 19, 20, 21, 37, 100])
    def test_batches_have_five_to_ten(self, count: int) -> None:
        uses = [ToolUse("bash", str(number)) for number in range(count)]
        batches = tool_batches(uses)
        assert [use for batch in batches for use in batch] == uses
        assert all(5 <= len(batch) <= 10 for batch in batches) or count < 5

    def test_more_than_ten_at_once_are_refused(self) -> None:
        with pytest.raises(ValueError, match="11 tool calls at once"):
            ExtractiveSummarizer().tools([ToolUse("bash", "")] * 11)


def test_of_sentences_that_say_the_same_one_is_chosen_and_a_limit_is_kept() -> None:
    sentences = [
        "the deploy is on thursday at noon",
        "the deploy is on thursday at noon now",
        "whales sing to each other",
    ]
    assert choose(sentences, 3, max_tokens=18) in ([0, 2], [1, 2])
    assert choose([], 0, max_tokens=100) == []
