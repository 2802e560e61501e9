"""What says the same twice is shown once; what is only alike is shown."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz, process

from harken.context.dedupe import distinct, told
from harken.model.conversations import ContextItem
from harken.sources.memories.duplicates import normal

STORY = "We keep the sessions of the storefront in a shared cache because restarts of a host must not log anybody out"
OTHERS = [
    "Invoices are dated in the zone of the customer and never in that of the server that happens to print them",
    "The nightly export writes one file for each tenant and uploads them only when every one of them is complete",
    "Search results are ordered by a score that falls with age, unless the person asks for the oldest ones first",
    "A retry waits twice as long as the one before it, and gives up after the sixth with a line in the error log",
    "Passwords are hashed with a memory hard function whose cost we raise every second year in a planned migration",
    "Every migration runs first on a copy of the production database, and its duration is noted in the change log",
    "The mobile client asks for changes since a cursor, so that a lost answer never leads to a lost or doubled row",
    "Feature switches expire after ninety days, when whoever added them gets a ticket to remove the code behind it",
    "Background jobs are idempotent, because the queue delivers each of them at least once and sometimes far more",
    "Images are resized on upload into three widths, and the original is kept in cold storage for a whole year",
]


def memory(uid: str, text: str, relevance: float = 0.5) -> ContextItem:
    content = f"**Memory**: {text}\n*Category: fact, Importance: 0.5*"
    return ContextItem("memory", content, relevance, {"id": uid, "category": "fact"})


def commit(sha: str, text: str, relevance: float = 0.5) -> ContextItem:
    content = f"**Commit** `{sha[:7]}` by Ann on 2026-05-04\n{text}\n*Files: a.py, b.py*"
    return ContextItem("commit", content, relevance, {"sha": sha, "files_changed": ["a.py", "b.py"]})


def code(path: str, name: str, line: int, doc: str, relevance: float = 0.5) -> ContextItem:
    content = f"**function** `{name}` in `{path}:{line}`\n```python\ndef {name}():\n{doc}\n```"
    return ContextItem("code", content, relevance, {"file_path": path, "qualified_name": name, "start_line": line})


def learned(source: str, uid: str, text: str, relevance: float = 0.5) -> ContextItem:
    head = (
        "**Experience**: debugging | ask-user\n- **Goal**: "
        if source == "experience"
        else "**Value** (full, cluster size: 5):\n"
    )
    return ContextItem(source, f"{head}{text}", relevance, {"id": uid})


def reworded(text: str, alike: float, seed: int) -> str:
    """The text with words replaced until it is only so much like itself."""
    chance, words = random.Random(seed), text.split()
    while fuzz.ratio(normal(text), normal(" ".join(words))) > 100 * alike:
        place = chance.randrange(len(words))
        words[place] = chance.choice(["rather", "usually", "twelve", "boxes", "quickly", "harbour", "green"])
    return " ".join(words)


def slightly(text: str, seed: int) -> str:
    """The text reworded, about 92 % alike."""
    words, place = text.split(), seed % 8 + 2
    words[place : place + 1] = [words[place], "also"]
    changed = " ".join(words)
    assert 90 <= fuzz.ratio(normal(text), normal(changed)) < 100
    return changed


def planted() -> list[tuple[ContextItem, ContextItem]]:
    """Ten duplicates across sources."""
    same_story = [
        (learned("experience", f"ghap{n}", OTHERS[n], 0.9), learned("value", f"ghap{n}", STORY + str(n) * 40, 0.4))
        for n in range(3)
    ]
    same_unit = [
        (code("a.py", f"f{n}", n, "One.", 0.8), code("a.py", f"f{n}", n, "Two, quite other words.", 0.7))
        for n in range(3)
    ]
    same_words = [
        (memory(f"m{n}", OTHERS[n], 0.8), commit(f"{n}" * 40, slightly(OTHERS[n], n), 0.6)) for n in range(3, 7)
    ]
    return [*same_story, *same_unit, *same_words]


def test_at_least_nine_of_ten_planted_duplicates_are_removed_and_the_more_relevant_one_stays() -> None:
    """Functional 3, quality 2: deduplication works across sources, and catches more than 90 % of duplicates."""
    pairs = planted()
    everything = [item for pair in pairs for item in pair]
    random.Random(3).shuffle(everything)
    kept = distinct(everything)
    removed = [less for _, less in pairs if less not in kept]
    assert len(removed) >= 9
    assert all(more in kept for more, _ in pairs)


def test_none_of_ten_near_misses_is_removed() -> None:
    """Functional 3: texts 70 % alike are two things."""
    pairs = [(memory(f"a{n}", text), commit(f"{n}" * 40, reworded(text, 0.7, n))) for n, text in enumerate(OTHERS)]
    for first, second in pairs:
        assert 60 <= fuzz.ratio(normal(told(first)), normal(told(second))) <= 75
    everything = [item for pair in pairs for item in pair]
    assert distinct(everything) == everything


def test_two_functions_of_a_file_and_a_commit_that_touches_it_are_three_things() -> None:
    items = [code("a.py", "open_file", 1, STORY), code("a.py", "close_file", 9, OTHERS[0]), commit("c" * 40, OTHERS[1])]
    assert distinct(items) == items


def test_sentences_that_differ_in_a_number_are_two_facts() -> None:
    items = [
        memory("a", "Staging runs PostgreSQL 15 on the small host"),
        memory("b", "Staging runs PostgreSQL 16 on the small host"),
    ]
    assert distinct(items) == items
    assert len(distinct([*items, commit("d" * 40, "staging runs PostgreSQL 16 on the small host.")])) == 2


def test_a_sentence_and_its_denial_are_two_facts() -> None:
    said, denied = "Deploys on Fridays are allowed for the shop", "Deploys on Fridays are not allowed for the shop"
    items = [memory("a", said, 0.9), commit("b" * 40, denied), learned("value", "c", f"{said}.", 0.3)]
    assert distinct(items) == items[:2]


def test_typing_errors_all_over_a_paragraph_do_not_make_another_of_it() -> None:
    chance = random.Random(5)
    for text in OTHERS:
        letters = list(f"{text}. {STORY}")
        for place in chance.sample(range(len(letters)), len(letters) // 16):
            letters[place] = chance.choice("aeioust")
        worse = memory("worse", "".join(letters), 0.3)
        others = [memory(str(n), other) for n, other in enumerate(OTHERS)]
        assert worse not in distinct([worse, *others, memory("better", f"{text}. {STORY}", 0.9)])


def test_of_long_texts_only_those_are_compared_that_may_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred at random from the same words, as a seed measures it: each letter by letter takes far over 50 ms."""
    chance, compared = random.Random(7), 0
    compare = process.extract_iter

    def counting(query: str, choices: Sequence[str], **options: Any) -> Any:
        nonlocal compared
        compared += len(choices)
        return compare(query, choices, **options)

    monkeypatch.setattr(process, "extract_iter", counting)
    words = sorted({word for text in OTHERS for word in text.split()})
    items = [memory(str(n), " ".join(chance.choices(words, k=330))) for n in range(100)]
    assert distinct(items) == items
    assert compared < 100
    letters = list(items[0].content)
    for place in chance.sample(range(20, len(letters) - 60), len(letters) // 14):
        letters[place] = chance.choice("aeioust")
    assert 90 <= fuzz.ratio(items[0].content, "".join(letters)) < 95
    worse = replace(memory("worse", "", 0.1), content="".join(letters))
    assert distinct([worse, *items]) == items
    assert 0 < compared < 200


def test_a_long_story_and_a_short_note_of_it_are_compared_whatever_script_they_are_in() -> None:
    russian = "Сессии магазина лежат в общем кэше, потому что перезапуск хоста никого не должен выкидывать из системы"
    chinese = "会话保存在共享缓存中因为重启主机时不应让任何人退出登录而且每个主机都可以读取这些会话内容"
    items = [
        memory("a", russian, 0.9),
        commit("e" * 40, f"{russian} вообще"),
        memory("b", chinese, 0.8),
        commit("f" * 40, f"{chinese}。"),
    ]
    assert distinct(items) == [items[0], items[2]]


def test_an_unknown_source_is_compared_by_its_words_alone() -> None:
    items = [
        ContextItem("rumour", STORY, 0.2, {}),
        ContextItem("rumour", OTHERS[0], 0.2, {}),
        ContextItem("rumour", STORY, 0.3, {}),
    ]
    assert distinct(items) == items[1:]


TEXTS = st.lists(st.tuples(st.sampled_from([STORY, *OTHERS, "", "a", "ab"]), st.floats(0, 1)), max_size=25)


@given(TEXTS, st.floats(0.5, 1.0))
def test_what_stays_keeps_its_order_and_says_everything_once(given: list[tuple[str, float]], similarity: float) -> None:
    items = [memory(str(n), text, relevance) for n, (text, relevance) in enumerate(given)]
    kept = distinct(items, similarity)
    assert [item for item in items if item in kept] == kept
    assert distinct(kept, similarity) == kept
    assert {normal(told(item)) for item in items if told(item) in (STORY, *OTHERS)} >= {
        normal(told(item)) for item in kept if told(item) in (STORY, *OTHERS)
    }
    best = max(items, key=lambda item: item.relevance, default=None)
    assert best is None or any(item.relevance == best.relevance for item in kept)
