from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harken.model.workspace import Passage
from harken.sources.workspace.passages import MAX_TOKENS, split_markdown, split_pages, split_text
from harken.text import tokens

SENTENCE = "The quick brown fox jumps over the lazy dog near the old river bank. "
LONG = SENTENCE * 12


def texts(passages: list[Passage]) -> list[str]:
    return [passage.text for passage in passages]


def test_a_short_document_is_one_passage_under_its_first_heading() -> None:
    found = split_markdown("# Guide\n\nHello.\n\n## Setup\n\nDo this.\n")
    assert texts(found) == ["# Guide\n\nHello.\n\n## Setup\n\nDo this."]
    assert (found[0].headings, found[0].start_line, found[0].end_line) == (("Guide",), 1, 7)


def test_long_sections_are_passages_of_their_own_with_the_headings_they_stand_under() -> None:
    source = f"# Guide\n\n{LONG}\n\n{LONG}\n\n## Setup\n\n{LONG}\n\n### Linux\n\n{LONG}\n\nUse\n===\n\n{LONG}\n"
    found = split_markdown(source)
    assert [passage.headings for passage in found] == [("Guide",), ("Guide", "Setup"), ("Use",)]
    assert all(passage.number == place for place, passage in enumerate(found))
    lines = source.splitlines()
    for passage in found:
        assert passage.text.startswith(lines[passage.start_line - 1])


def test_a_code_fence_is_never_torn_and_what_is_in_it_is_no_heading() -> None:
    fence = "```python\n" + "# not a heading\n\nx = 1\n" * 300 + "```"
    found = split_markdown(f"# Guide\n\nBefore.\n\n{fence}\n\nAfter.\n")
    holding = [text for text in texts(found) if "```" in text]
    assert len(holding) == 1
    assert fence in holding[0]
    assert {passage.headings for passage in found} == {("Guide",)}


def test_fences_of_other_marks_close_only_by_their_own_kind() -> None:
    source = "~~~~\n```\n# no\n~~~\nstill\n~~~~\n# Yes\n\nText."
    assert split_markdown(source)[0].text.startswith("~~~~\n```\n# no\n~~~\nstill\n~~~~\n\n# Yes")


def test_a_fence_that_is_never_closed_goes_on_to_the_end() -> None:
    found = split_markdown("Text.\n\n```\n# code\n" + "line\n" * 3)
    assert found[-1].text.endswith("```\n# code\nline\nline\nline")


def test_a_heading_is_never_the_last_line_of_a_passage() -> None:
    source = "\n\n".join(f"## Part {number}\n\n{LONG}" for number in range(8))
    for text in texts(split_markdown(source)):
        assert not text.splitlines()[-1].startswith("#")


def test_a_paragraph_without_end_is_cut_between_sentences() -> None:
    found = split_text(SENTENCE * 200)
    assert len(found) > 3
    assert all(tokens.fits(text, MAX_TOKENS) and text.endswith("bank.") for text in texts(found))
    assert " ".join(texts(found)) == (SENTENCE * 200).strip()


def test_pages_are_counted_in_place_of_lines() -> None:
    found = split_pages([LONG * 2, "", LONG * 2])
    assert [(passage.start_line, passage.end_line) for passage in found] == [(1, 1), (3, 3)]


def test_nothing_gives_nothing() -> None:
    assert split_markdown("") == split_text(" \n\n ") == split_pages([]) == []


@given(st.lists(st.sampled_from(["# A", "## B", "", "text", "```", LONG, "- item", "===", "| a | b |"]), max_size=40))
def test_every_word_is_in_some_passage_once_and_in_order(lines: list[str]) -> None:
    source = "\n".join(lines)
    kept = " ".join(texts(split_markdown(source))).split()
    words = [word for word in source.split() if set(word) != {"="}]
    assert [word for word in kept if set(word) != {"="}] == words


@given(st.text(max_size=3000))
def test_any_text_is_split_within_the_limit(text: str) -> None:
    assert all(tokens.fits(passage, MAX_TOKENS) for passage in texts(split_text(text)))
