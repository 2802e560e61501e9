from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.sources.memories.duplicates import CHANGED, DENIED, MEANING, SAME, WORDS, find_alike, normal

SENTENCES = st.text(st.sampled_from("abc AB1.,!#+"), min_size=1, max_size=30).filter(str.strip)


def why(new: str, old: str, category: str = "decision", similarity: float | None = None) -> str | None:
    """Why a memory is taken for another one's; None where both stay."""
    found = find_alike(new, category, {"old": old}, {} if similarity is None else {"old": similarity})
    return found[0].why if found else None


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Use tabs.", "use  TABS"),
        ("“Deploy on Tuesdays!”", "Deploy on Tuesdays"),
        ("Straße ﬁnden", "STRASSE finden"),
    ],
)
def test_the_same_words_are_the_same_however_they_are_written(new: str, old: str) -> None:
    assert why(new, old, "fact") == why(new, old, "event") == SAME


@pytest.mark.parametrize(
    ("new", "old"), [("Prefer C++", "Prefer C#"), ("It is -5 degrees", "It is 5 degrees"), ("!", "?")]
)
def test_marks_that_matter_make_other_words(new: str, old: str) -> None:
    assert why(new, old) != SAME


@pytest.mark.parametrize("category", ["decision", "preference", "workflow", "fact", "context"])
def test_another_number_is_the_same_thing_decided_anew(category: str) -> None:
    assert why("The staging port is 8081", "The staging port is 8080", category) == WORDS


@pytest.mark.parametrize("category", ["fact", "context", "event"])
@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("小红的生日是五月三日，她最喜欢喝的是绿茶和咖啡", "小明的生日是五月三日，他最喜欢喝的是绿茶和咖啡"),
        (
            "鈴木さんの誕生日は五月三日で、好きな飲み物は緑茶です",
            "田中さんの誕生日は五月三日で、好きな飲み物は緑茶です",
        ),
        (
            "Боевой сервер стоит в Казани, за ним следит дежурный",
            "Тестовый сервер стоит в Казани, за ним следит дежурный",
        ),
        (
            "Evas Geburtstag ist am dritten Mai, sie trinkt gern Tee",
            "Annas Geburtstag ist am dritten Mai, sie trinkt gern Tee",
        ),
    ],
)
def test_another_subject_is_another_thing_in_any_language(category: str, new: str, old: str) -> None:
    assert why(new, old, category) is None


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("测试环境使用PostgreSQL 16数据库", "测试环境使用PostgreSQL 15数据库"),
        (
            "Тестовые серверы стоят в Казани, за ними следит дежурный",
            "Тестовый сервер стоит в Казани, за ним следит дежурный",
        ),
        ("Das Standup ist jetzt immer um neun im grosen Raum", "Das Standup ist jetzt immer um neun im großen Raum"),
    ],
)
def test_a_number_and_words_that_are_bent_are_the_same_thing_in_any_language(new: str, old: str) -> None:
    assert why(new, old, "fact") == WORDS


@pytest.mark.parametrize("category", ["event", "error"])
def test_another_number_is_another_event(category: str) -> None:
    assert why("We deployed release 42 on time", "We deployed release 41 on time", category) is None


@pytest.mark.parametrize("category", ["event", "error"])
@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("ImportError: no module named requests", "ImportError: no module named yaml"),
        ("The nightly backup was restored onto the mailer", "The nightly backup was restored onto the ledger"),
    ],
)
def test_another_thing_at_the_end_is_another_error(category: str, new: str, old: str) -> None:
    assert why(new, old, category, similarity=0.95) is None
    assert why(new, old, "workflow", similarity=0.95) is not None


def test_a_mistyped_word_is_no_other_error() -> None:
    assert why("ImportError: no module named requests", "ImportError: no module named reqests", "error") == WORDS
    assert why("The build stopped on a missing header", "The build broke on a missing header", "error", 0.95) == MEANING


@pytest.mark.parametrize("category", ["fact", "context", "event", "error"])
def test_another_name_is_another_fact(category: str) -> None:
    assert why("The phone of Maya ends in 1234", "The phone of Mara ends in 1234", category) is None


def test_a_name_does_not_keep_an_outdated_decision() -> None:
    assert why("We store the sessions of users in Redis 7", "We store the sessions of users in Redis") == WORDS


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Standup is not on Tuesdays", "Standup is on Tuesdays"),
        ("We no longer deploy on Fridays", "We deploy on Fridays"),
        ("Ann doesn’t like dark mode", "Ann likes dark mode"),
        ("Never use tabs", "Use tabs"),
        ("The shop isn't closed on Sundays any more", "The shop is closed on Sundays"),
        ("Магазин больше не обновляем по пятницам", "Магазин обновляем по пятницам"),
    ],
)
def test_a_denial_stands_in_place_of_what_it_denies(new: str, old: str) -> None:
    for category in ("fact", "preference", "decision", "workflow", "context"):
        assert why(new, old, category) in (WORDS, DENIED)
        assert why(old, new, category) in (WORDS, DENIED)
    assert why(new, old, "event") is None


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Standup has moved to Thursdays", "Standup is on Tuesdays at 10"),
        ("We now use Postgres for sessions", "We use Redis for sessions"),
        ("Sprints now take 3 weeks", "Sprints take 2 weeks"),
        ("Деплой магазина теперь по четвергам", "Деплой магазина по вторникам"),
    ],
)
def test_what_has_changed_stands_in_place_of_what_was_before(new: str, old: str) -> None:
    assert why(new, old, "fact") == why(new, old, "decision") == CHANGED
    assert why(new, old, "event") is None


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Standup has moved to Thursdays", "Standup is in Zoom"),
        ("We now use Postgres for queues", "We use Redis for sessions"),
        ("Деплой блога теперь по четвергам", "Деплой магазина по вторникам"),
        ("Nothing has changed", "Standup is on Tuesdays"),
    ],
)
def test_a_change_of_one_thing_leaves_others_alone(new: str, old: str) -> None:
    assert why(new, old) is None


def test_another_weekday_is_another_time_of_the_same_fact_and_another_event() -> None:
    assert why("Standup is on Thursdays", "Standup is on Tuesdays", "fact") == WORDS
    assert why("Standup was on Thursday", "Standup was on Tuesday", "event", similarity=0.95) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann prefers tabs over spaces in Python files", "Bob prefers tabs over spaces in Python files"),
        ("Аня любит чай", "Оля любит чай"),
        ("The API of staging listens on port 8080", "The API of production listens on port 8080"),
        ("The daily standup is held by the whole team", "The weekly standup is held by the whole team"),
        ("Maya's birthday is on 3 May", "Mark's birthday is on 3 May"),
        ("Room 101 has 20 seats", "Room 102 has 25 seats"),
        ("Invoice 2041 was paid on 3 May", "Invoice 2042 was paid on 9 May"),
    ],
)
def test_the_same_of_two_subjects_is_two_things_however_alike(one: str, other: str) -> None:
    for category in ("preference", "fact", "workflow", "decision"):
        assert why(one, other, category, similarity=0.98) is None


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Room 101 has 25 seats", "Room 101 has 20 seats"),
        ("Standup is at 10 in room 5", "Standup is at 9 in room 4"),
        ("The port of the API is 9090 since May 4", "The port of the API is 8080 since May 3"),
    ],
)
def test_other_numbers_behind_the_same_subject_are_its_newer_ones(new: str, old: str) -> None:
    assert why(new, old, "fact", similarity=0.97) is not None


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Never squash commits before merging", "Always squash commits before merging"),
        ("Disable the caches in production", "Enable the caches in production"),
        ("The user prefers light mode in the editor", "The user prefers dark mode in the editor"),
        ("Prefer large commits over big ones", "Prefer small commits over big ones"),
    ],
)
def test_another_stand_on_the_same_thing_is_the_newer_one(new: str, old: str) -> None:
    assert why(new, old, "preference", similarity=0.97) is not None


def test_a_rewording_is_known_by_its_meaning() -> None:
    new, old = "Run the tests before every push", "Tests must be run before each push"
    assert why(new, old, similarity=0.93) == MEANING
    assert why(new, old, similarity=0.91) is None
    assert why(new, old) is None


def test_the_likest_comes_first_and_the_same_words_before_all() -> None:
    others = {"a": "deploy the service on tuesdays", "b": "deploy the services on Tuesdays", "c": "deploys"}
    found = find_alike("Deploy the services on tuesdays", "workflow", others, {"c": 0.999, "gone": 1.0})
    assert [(one.uid, one.why) for one in found] == [("b", SAME), ("c", MEANING), ("a", WORDS)]


@given(SENTENCES, st.sampled_from(["fact", "event", "decision"]))
def test_what_is_said_again_is_always_known(text: str, category: str) -> None:
    assert why(text, text, category) == SAME
    assert normal(normal(text)) == normal(text)
