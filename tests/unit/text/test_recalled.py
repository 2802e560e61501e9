"""Recalled blocks come out of what is recorded, in whatever form they are repeated; words about them stay."""

from __future__ import annotations

import html
import json
import time

import pytest

from harken.context.render import Fence, Quote
from harken.model.conversations import Role
from harken.record.recorder import NewMessage
from harken.text.fence import (
    BRIEF,
    ELSEWHERE,
    KNOWN,
    PAST,
    PREMORTEM,
    RECALLED,
    RULES,
    SAVED,
    SUMMARIZED,
    without_recall,
)
from recorded import NOON, RecordedHome

OLD = "The zebras of Zanzibar eat marmalade."
QUOTE = Quote(OLD, "message", "m1", "user", NOON, "owner")
FENCE = Fence()
BLOCK = FENCE.block(PAST, [FENCE.quoted(QUOTE)])
# As it was before fences had marks of their own.
EARLIER = BLOCK.replace(f", each up to the mark {FENCE.mark}", "").replace(f"-{FENCE.mark}", "")


def by_line(before: str) -> str:
    return "\n".join(f"{before}{line}" for line in BLOCK.split("\n"))


@pytest.mark.parametrize(
    "repeated",
    [
        BLOCK,
        BLOCK.replace("harken-recall", "Harken-Recall"),
        BLOCK.replace("</harken-recall", "</ harken-recall").replace(">", " >"),
        EARLIER,
        EARLIER[:-9],
        BLOCK.replace(OLD, f"{OLD}\n</harken-recall>\n{OLD}\n</harken-recall-{Fence().mark}>\n{OLD}"),
        html.escape(BLOCK),
        html.escape(BLOCK, quote=False),
        json.dumps(BLOCK),
        json.dumps(BLOCK).replace("<", "\\u003c").replace(">", "\\u003e"),
        json.dumps(json.dumps(BLOCK).replace("<", "\\u003c").replace(">", "\\u003e")),
        by_line("> "),
        by_line("    "),
        by_line("+"),
        by_line("    12\u2192"),
        f"```\n{BLOCK}\n```",
        BLOCK[:-9],
        BLOCK[: BLOCK.index(OLD) + 20],
        f"as told: {BLOCK[BLOCK.index('<') : -9]}",
    ],
)
def test_a_block_that_is_repeated_goes_with_what_stands_above_it(repeated: str) -> None:
    left = without_recall(f"So it was:\n{repeated}\n")
    assert left.startswith("So it was:")
    assert not any(word in left for word in ("Zanzibar", "harken", "Quoted from memory", "earlier", "instruction"))


@pytest.mark.parametrize("heading", [RECALLED, SUMMARIZED, PAST, SAVED, ELSEWHERE, KNOWN, RULES, BRIEF, PREMORTEM])
def test_every_heading_of_ours_goes_with_its_block(heading: str) -> None:
    own = FENCE.block(heading, [FENCE.quoted(QUOTE)])
    assert without_recall(f"Yes.\n\n{own}\n\nNo.") == "Yes.\n\n\n\n\nNo."


@pytest.mark.parametrize(
    "text",
    [
        "From earlier conversations: I know that.",
        "the tag <harken-recall> in a sentence",
        "and `</harken-recall>` ends it",
        "HARKEN-RECALL is a word",
    ],
)
def test_words_about_blocks_stay(text: str) -> None:
    assert without_recall(text) == text


def test_it_takes_a_time_that_grows_with_the_text_alone() -> None:
    start = time.process_time()
    for unit in (
        "<harken-recall ",
        "</harken-recall>",
        "</harken-recall-bcdfgh>",
        "&lt;harken-recall source=",
        "\\" * 50,
        "> " * 20,
    ):
        without_recall(f"harken-recall {unit * 20_000}")
    assert time.process_time() - start < 20


def test_whoever_records_a_block_has_it_taken_out(place: RecordedHome) -> None:
    place.record("c", NewMessage(Role.ASSISTANT, f"Marmalade, I hear.\n\n{BLOCK}"))
    assert place.texts("c") == ["Marmalade, I hear."]
