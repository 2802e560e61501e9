"""`harken search`: every filter, what people see, and what scripts get."""

from __future__ import annotations

import re

import pytest

from command_line import CommandLine

HIT_KEYS = {
    *("id", "source", "conversation_id", "exchange_id", "role", "created_at", "text", "score", "similarity"),
    "reasons",
}


def found(stocked: CommandLine, *arguments: str) -> set[str]:
    return {hit["text"].split()[-1] for hit in stocked.search("tomato", *arguments)}


# Whoever stands beside a message that holds the word is found as well.
EVERYTHING = {"outside?", "May.", 'bed"}', "days", "heater?", "years.", "heavy", "torn"}


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ((), EVERYTHING),
        (("--role", "assistant"), {"May.", 'bed"}', "years."}),
        (("--role", "user", "--role", "tool"), EVERYTHING - {"May.", 'bed"}', "years."}),
        (("--project", "bookkeeping"), {"heater?", "years."}),
        (("--source", "message", "--source", "memory"), EVERYTHING),
        (("--since", "3 days ago"), {"heavy"}),
        (("--since", "2 months ago", "--until", "3 weeks ago"), {"torn"}),
        (("--since", "May 2026", "--until", "2026-05-08"), {"outside?", "May.", 'bed"}', "days"}),
        (("--mode", "keyword", "--since", "yesterday"), {"heavy"}),
    ],
)
def test_each_filter_leaves_what_it_names(stocked: CommandLine, filters: tuple[str, ...], left: set[str]) -> None:
    assert found(stocked, *filters) == left


def test_scripts_get_the_promised_shape_and_as_many_hits_as_they_ask_for(stocked: CommandLine) -> None:
    outcome = stocked("search", "tomato", "seedlings", "--limit", "2", "--json")
    facts = outcome.json()
    assert outcome.err == ""
    assert set(facts) >= {"hits"}
    assert len(facts["hits"]) == 2
    assert all(set(hit) >= HIT_KEYS for hit in facts["hits"])
    assert {hit["source"] for hit in facts["hits"]} == {"message"}
    assert {hit["created_at"] for hit in facts["hits"]} == {"2026-05-08T09:00:00+00:00", "2026-05-08T09:01:00+00:00"}
    assert facts["hits"][0]["score"] >= facts["hits"][1]["score"]


def test_a_source_that_there_is_not_is_refused_with_those_that_there_are(stocked: CommandLine) -> None:
    refused = stocked.fails("search", "heater", "--source", "messages", code=2)
    assert "'messages' is not one of 'message', 'memory', 'experience'" in refused


def test_a_conversation_is_named_by_the_beginning_of_its_id_or_by_its_own_name(stocked: CommandLine) -> None:
    heater = stocked.search("heater", "--conversation", "taxes")
    assert {hit["role"] for hit in heater} == {"user", "assistant"}
    assert stocked.search("heater", "--conversation", heater[0]["conversation_id"][:8]) == heater


def test_people_see_the_conversation_the_project_the_speaker_the_age_and_the_id(stocked: CommandLine) -> None:
    outcome = stocked("search", "seedlings outside", "--conversation", "garden", "--explain")
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[0] == "Tomatoes  greenhouse"
    assert re.fullmatch(r" 1\. Ada, (2026-05-08 \d\d:\d\d|\d+ \w+ ago)  [0-9a-f-]{36}", lines[1])
    assert lines[2].strip() == "When should I plant the tomato seedlings outside?"
    assert re.search(r"score \d\.\d+ · fused \d\.\d+ · no vector \(.* · keyword rank \d", lines[3])
    # What adds to its place and what takes from it, in words.
    assert re.search(r" · \+\d\.\d\d has the query's words, or stands beside them", lines[3])
    assert re.search(r" · -\d\.\d\d [a-z]", lines[3])
    hit = stocked.search("seedlings outside", "--conversation", "garden")[0]
    added = [reason for reason in hit["reasons"] if reason["added"]]
    assert [reason["name"] for reason in added][:1] == ["words"]
    assert {reason["value"] < 0 for reason in added} == {True, False}


def test_matched_words_are_lit_up_where_colours_are_wanted(stocked: CommandLine) -> None:
    outcome = stocked("search", "seedlings", settings={"FORCE_COLOR": "1"})
    assert re.search(r"\x1b\[1;33mseedlings", outcome.out)


def test_nothing_found_is_an_answer_and_no_error(stocked: CommandLine) -> None:
    assert stocked("search", "zeppelin").out == "Nothing was found.\n"
    assert stocked.search("?!") == []


def test_a_search_without_a_model_says_that_it_went_by_words_alone(stocked: CommandLine) -> None:
    outcome = stocked("search", "harvest", settings={"HARKEN_EMBEDDER": "onnx"})
    assert "heavy" in outcome.out
    assert outcome.err == "Searched by words alone: nothing is embedded yet. Go on: harken worker run --until-idle\n"


def test_a_search_by_meaning_alone_names_the_setting_where_no_model_is_set(stocked: CommandLine) -> None:
    outcome = stocked("search", "harvest", "--mode", "semantic", settings={"HARKEN_EMBEDDER": "none"})
    assert outcome.out == "Nothing was found.\n"
    assert "Set one: harken config set embedder onnx" in outcome.err
    assert "worker run" not in outcome.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["search", "x", "--since", "2026-02-30"], 2, "'2026-02-30' is not a day of the calendar"),
        (["search", "x", "--project", "nowhere"], 1, "There is no project nowhere. List them: harken status"),
        (["search", "x", "--conversation", "nowhere"], 1, "There is no conversation nowhere. Ids are printed by"),
        (["search", "x", "--role", "ghost"], 2, "'ghost' is not one of"),
        (["search", "x", "--limit", "0"], 2, "'--limit': 0 is not in the range"),
        (["search", "x", "--threshold", "2"], 2, "'--threshold': 2.0 is not in the range 0<=x<=1"),
        (["memory", "add", "x", "--importance", "7"], 2, "'--importance': 7.0 is not in the range 0<=x<=1"),
        (["search"], 2, "Missing argument 'QUERY...'. See: harken search --help"),
    ],
)
def test_a_search_that_cannot_be_meant_is_one_line_that_names_the_fix(
    stocked: CommandLine, arguments: list[str], code: int, words: str
) -> None:
    assert words in stocked.fails(*arguments, code=code)
