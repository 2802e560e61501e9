"""Questions made of a history, asked as of their own time, on either engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harken.bench.bench import PRESENT, Measured, MineReport
from harken.bench.measures import mean_interval, reciprocal_rank, share_interval
from harken.bench.questions import MinedQuestion
from harken.engine import Harken
from harken.errors import UsageError
from harken.storage.enrichment.summaries import EXCHANGE, StoredSummary, put_summary
from harken.storage.entries import load_entries
from harken.testing import HashingEmbedder

COLOURS = ("crimson", "turquoise", "ochre", "violet", "emerald", "silver")
THINGS = ("bicycle", "lantern", "telescope", "accordion", "kettle", "anvil")
PLACES = ("harbour", "attic", "orchard", "chapel", "lighthouse", "tannery")
BEGIN = datetime(2025, 3, 1, 9, tzinfo=UTC)
LEAK = ("Why does the walrus pump lose its grease?", "The walrus pump loses grease because its gasket cracked.")

Talk = tuple[str, str, str]


def history() -> list[Talk]:
    """Seventy-two messages: words that recur in ever other company."""
    said: list[Talk] = []
    for number in range(36):
        colour, thing = COLOURS[number % 6], THINGS[number // 6]
        place = PLACES[(number * 5 + number // 6) % 6]
        talk = f"week {number // 6}"
        said.append((talk, "user", f"Yesterday the {colour} {thing} arrived near the {place}."))
        said.append((talk, "assistant", "Noted, thank you for telling me so."))
    return said


class Made:
    """A store with talk in it, a minute between messages."""

    def __init__(self, home: Path, settings: dict[str, Any]) -> None:
        settings = {**settings, "embedding.min_message_tokens": 3}
        self.harken = Harken(home, settings=settings, embedder=HashingEmbedder(1024, threshold=0.3), env={})
        self._moment, self._file, self._number = BEGIN, home.parent / "talks", 0
        self._file.mkdir()

    def say(self, *said: Talk, project: str | None = None) -> None:
        """Import messages, each a minute after the one before."""
        lines = []
        for conversation, role, content in said:
            self._moment += timedelta(minutes=1)
            lines.append(
                {
                    "conversation": conversation,
                    "role": role,
                    "content": content,
                    "ts": self._moment.isoformat(),
                    "project": project,
                }
            )
        self._number += 1
        path = self._file / f"{self._number}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        self.harken.import_transcripts("jsonl", [path])
        self.harken.embed()

    def kinds(self, report: MineReport, kind: str) -> dict[str, Any]:
        """What was measured of a kind, by its question."""
        return {each.question.text: each for each in report.measured if each.question.kind == kind}

    def texts(self, uids: frozenset[str]) -> list[str]:
        """What messages say."""
        found = (self.harken.show(uid, 0).message for uid in sorted(uids))
        return sorted(message.text for message in found if message)


@pytest.fixture
def made(tmp_path: Path, ready_home: Path, store_settings: dict[str, Any]) -> Iterator[Made]:
    made = Made(ready_home, store_settings)
    made.say(*history())
    yield made
    made.harken.close()


@pytest.mark.usefixtures("engine_settings")
def test_a_question_asked_again_is_answered_by_what_was_said_before_it_alone(made: Made) -> None:
    question, answer = LEAK
    made.say(("spring", "user", question), ("spring", "assistant", answer))
    again = "Why does our walrus pump lose so much grease?"
    made.say(
        ("summer", "user", again), ("summer", "assistant", "Its walrus gasket was never replaced, so grease drips.")
    )
    made.say(("autumn", "user", "The walrus pump loses grease, loses grease because its gasket cracked, as ever."))

    found = made.kinds(made.harken.bench.mine(20), "asked again")

    assert list(found) == [again]
    assert made.texts(found[again].question.gold) == [answer]
    # The first time nobody had an answer; what autumn says comes later, and would stand first.
    assert found[again].places["convex"] in (1, 2)
    assert found[again].recalled[PRESENT][0]


def test_nothing_that_was_said_later_is_injected_for_a_new_matter(made: Made) -> None:
    question, answer = LEAK
    made.say(("first", "user", question), ("first", "assistant", "I cannot tell yet."))
    for number in range(3):
        made.say((f"later {number}", "user", "Tell me about walrus grease."), (f"later {number}", "assistant", answer))

    new = made.kinds(made.harken.bench.mine(20), "new matter")

    assert not new[question].recalled[PRESENT][0]
    # Were it asked today, much would come back.
    assert made.harken.chats.past(question).conversations


def test_a_known_item_is_asked_by_words_that_only_its_message_has_together(made: Made) -> None:
    report = made.harken.bench.mine(20)
    found = made.kinds(report, "known item")

    assert len(found) >= 20
    for text, each in found.items():
        [said] = made.texts(each.question.gold)
        words = text.removeprefix("What did I say about ").removeprefix("What did you say about ").strip("?").split()
        assert len(words) == 3
        assert all(word in said.lower() for word in words)
    rows = {(row["kind"], row["fusion"]): row for row in report.search_figures()}
    assert rows["known item", "convex"]["recall@10"] > 0.9


def test_a_sentence_of_a_models_summary_stands_for_the_message_that_it_tells(made: Made) -> None:
    said = "The walrus pump got a neoprene gasket, for rubber cracks in the frost."
    made.say(("pump", "user", said), ("pump", "assistant", "Understood, I shall order some more."))
    retold = "Neoprene gaskets for the walrus pump, since rubber cracks."
    with made.harken.store.writing() as tx:
        [exchange] = [entry.exchange_uid for entry in load_entries(tx, range(70, 80)).values() if entry.text == said]
        summary = StoredSummary(EXCHANGE, str(exchange), retold, "", "openai:any", BEGIN, BEGIN)
        put_summary(tx, summary, made.harken.search("walrus").hits[0].entry.conversation_uid or "")

    found = made.kinds(made.harken.bench.mine(100), "retold")

    assert made.texts(found[retold].question.gold) == [said]
    assert found[retold].places["convex"] == 1


def test_where_there_are_projects_other_scopes_are_tried(made: Made) -> None:
    question, answer = LEAK
    made.say(("harbour", "user", question), ("harbour", "assistant", answer), project="path:/work/harbour")
    again = "Why does our walrus pump lose so much grease?"
    made.say(("zoo", "user", again), ("zoo", "assistant", "I cannot tell."), project="path:/work/zoo")

    report = made.harken.bench.mine(20)

    assert [trial.name for trial in report.trials][-2:] == ["scope project", "scope all"]
    came = {name: found for name, (found, _) in made.kinds(report, "asked again")[again].recalled.items()}
    assert came["scope all"]
    assert not came["scope project"]


def test_what_is_quoted_is_looked_for_where_the_one_who_is_quoted_said_it(made: Made) -> None:
    made.say(
        ("plan", "user", "Which gasket suits the walrus pump?"),
        ("plan", "assistant", "A neoprene gasket suits the walrus pump."),
    )
    made.say(*history()[:8])
    prompt = "Order the neoprene gasket for the walrus pump you recommended"
    made.say(("order", "user", prompt), ("order", "assistant", "Ordered."))

    found = made.kinds(made.harken.bench.mine(20), "quoted")

    assert made.texts(found[prompt].question.gold) == ["A neoprene gasket suits the walrus pump."]


def test_what_was_saved_is_looked_for_where_it_was_said(made: Made) -> None:
    made.say(("pump", "user", "From now on the walrus pump gets neoprene gaskets, never rubber ones."))
    made.harken.memories.add("The walrus pump gets neoprene gaskets, not rubber", category="decision")

    found = made.kinds(made.harken.bench.mine(20), "saved")

    [each] = found.values()
    assert made.texts(each.question.gold)[0].startswith("From now on the walrus pump")
    assert each.places["convex"] == 1


def test_the_same_seed_makes_the_same_questions_and_another_one_others(made: Made) -> None:
    def asked(seed: int) -> list[str]:
        return [each.question.text for each in made.harken.bench.mine(20, seed).measured]

    first = asked(1)
    assert asked(1) == first
    assert asked(2) != first


def test_a_threshold_that_keeps_answers_out_is_seen_and_another_one_suggested(made: Made) -> None:
    made.harken.run_time.set("rag.min_similarity", 0.99)

    report = made.harken.bench.mine(100)

    present, *others = report.recall_figures()
    assert present["evidence"] < max(row["evidence"] for row in others)
    assert any(command.startswith("harken config set rag.min_similarity 0.") for command, _ in report.suggestions())
    assert made.harken.settings.rag.min_similarity == 0.99


def test_settings_that_do_as_well_as_any_are_left_alone(made: Made) -> None:
    assert made.harken.bench.mine(20).suggestions() == []


@pytest.mark.parametrize(("kind", "suggested"), [("asked again", ["convex"]), ("known item", []), ("answered", [])])
def test_a_fusion_is_suggested_by_what_is_asked_in_other_words_alone(kind: str, suggested: list[str]) -> None:
    question, places = MinedQuestion(kind, LEAK[0], frozenset({"1"})), {"learned": 5, "convex": 1, "rrf": 4}
    report = MineReport(24, "learned", measured=[Measured(question, places, {})] * 24)
    assert report.suggestions() == [
        (f"harken config set search.fusion {name}", "MRR +0.800 against learned") for name in suggested
    ]


def test_whoever_stops_it_has_what_was_measured_so_far(made: Made) -> None:
    def stop(done: int, _all: int) -> None:
        if done == 9:
            raise KeyboardInterrupt

    report = MineReport()
    with pytest.raises(KeyboardInterrupt):
        made.harken.bench.mine(20, progress=stop, report=report)
    assert len(report.measured) == 9
    assert report.search_figures()[0]["questions"] + report.count(False) == 9
    # Too few to decide anything.
    assert report.suggestions() == []


def test_too_small_a_limit_is_refused(made: Made) -> None:
    with pytest.raises(UsageError, match="limit must be at least 20, not 3"):
        made.harken.bench.mine(3)


@pytest.mark.parametrize(
    ("interval", "low", "high"),
    [
        # Newcombe 1998, table I, method 3.
        (lambda: share_interval(81, 263), 0.2553, 0.3662),
        (lambda: share_interval(15, 148), 0.0624, 0.1605),
        (lambda: share_interval(0, 20), 0.0, 0.1611),
        (lambda: share_interval(29, 29), 0.8830, 1.0),
    ],
)
def test_intervals_of_shares_are_those_that_are_published(
    interval: Callable[[], tuple[float, float]], low: float, high: float
) -> None:
    assert interval() == pytest.approx((low, high), abs=1e-4)


def test_the_interval_of_a_mean_holds_it_and_shrinks_with_more_values() -> None:
    few, many = [0.0, 1.0] * 10, [0.0, 1.0] * 1000
    narrow, wide = mean_interval(many), mean_interval(few)
    assert wide[0] < narrow[0] < 0.5 < narrow[1] < wide[1]
    low, high = mean_interval(many, many)
    assert low < 1.0 < high


def test_the_reciprocal_rank_is_that_of_the_first_that_is_wanted() -> None:
    assert reciprocal_rank("abcd", {"d", "c"}) == 1 / 3
    assert reciprocal_rank("abcd", {"x"}) == 0.0
