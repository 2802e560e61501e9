"""Two projects that talk about the same matters in the same words, with different facts: none hears the other's."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from harken.engine import Harken
from harken.serve.hooks.answers import Hooks

pytestmark = pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs harken[local]")

THINGS = "billing importer, invoice archive, login page, search service, mail gateway"
ASPECTS = """retry limit, request timeout, backup window, owner on call, deploy day, log level, staging host,
cache lifetime, maximum upload size, release branch, alert channel, database port, cleanup schedule, page size,
feature flag, queue name, session length, password policy, certificate authority, test account"""
# 100 facts.
FACTS = [(aspect, thing) for thing in re.split(r",\s", THINGS) for aspect in re.split(r",\s", ASPECTS)]
PROJECTS = ("north", "south")
OTHER = {"north": "south", "south": "north"}


def value(project: str, number: int) -> str:
    """What only one project says of a fact."""
    return f"{project}-{number:03}"


def asked(number: int) -> str:
    """A prompt about a fact."""
    aspect, thing = FACTS[number]
    return f"What is the {aspect} of the {thing}?"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of two repositories, and of a third that nothing was said in."""
    folder = tmp_path_factory.mktemp("projects")
    for name in (*PROJECTS, "third"):
        (folder / name / ".git").mkdir(parents=True)
        (folder / name / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        (folder / name / "src" / "deep").mkdir(parents=True)
    return {name: folder / name for name in (*PROJECTS, "third")}


@pytest.fixture(scope="module")
def harken(tmp_path_factory: pytest.TempPathFactory, empty_database: Path, places: dict[str, Path]) -> Iterator[Harken]:
    home = tmp_path_factory.mktemp("home")
    shutil.copy(empty_database, home)
    with Harken(home, env={}, settings={"embedding.min_message_tokens": 3}) as harken:
        for project in PROJECTS:
            for number, (aspect, thing) in enumerate(FACTS):
                talk, where = f"{project} {thing}", places[project] / "src"
                told = f"We decided that the {aspect} of the {thing} is {value(project, number)} from now on."
                harken.record_message(talk, "user", f"How shall the {aspect} of the {thing} be?", directory=where)
                harken.record_message(talk, "assistant", told)
            for number in range(0, len(FACTS), 10):
                aspect, thing = FACTS[number]
                text = f"The {aspect} of the {thing} is {value(project, number)} by decision."
                harken.memories.add(text, "decision", directory=places[project])
        harken.memories.add("The office kitchen orders its oat milk from the dairy in Springfield.", "fact")
        harken.embed()
        yield harken


def of_scope(harken: Harken, mode: str) -> Harken:
    """The same, with that setting."""
    harken.run_time.set("rag.scope", mode)
    return harken


def quoted(text: str) -> list[tuple[str, str]]:
    """Of each quotation, the attributes of its mark and its words."""
    return re.findall(r"<harken-recall-\w+([^>]*)>\n(.*?)\n</harken-recall", text, re.DOTALL)


def check_order(text: str, project: str) -> None:
    """Whatever says the other project's values names it, and stands before nothing of its own."""
    named = []
    for marks, words in quoted(text):
        is_named = f'project="{OTHER[project]}"' in marks or f"*Project: {OTHER[project]}*" in words
        assert is_named or f"{OTHER[project]}-" not in words
        assert not is_named or f"{project}-" not in words
        named.append(is_named)
    assert named == sorted(named)


def told(hooks: Hooks, prompt: str, directory: Path, session: str) -> str:
    """What a hook adds to a prompt."""
    payload = {"session_id": session, "prompt": prompt, "cwd": str(directory), "hook_event_name": "UserPromptSubmit"}
    said = hooks.answer("UserPromptSubmit", "claude-code", json.dumps(payload).encode())
    return json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""


@pytest.fixture
def hooks(harken: Harken, tmp_path: Path) -> Hooks:
    return Hooks(harken, str(tmp_path / "reports"))


def in_hooks(hooks: Hooks, directory: Path, numbers: Sequence[int] = range(len(FACTS))) -> Iterator[tuple[int, str]]:
    """What a hook adds to prompts about facts, each in a session of its own."""
    for number in numbers:
        yield number, told(hooks, asked(number), directory, f"{hooks.reports} {directory} {number}")


def in_chats(harken: Harken, directory: Path, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The same of new chats."""
    for number in numbers:
        context = harken.chat.context(harken.chat.begin(directory), asked(number))
        yield number, "\n".join(message.content for message in context.messages if message.role == "system")


def in_texts(harken: Harken, directory: Path, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The same of assembled contexts."""
    for number in numbers:
        types = ("memories", "conversations", "experiences", "values")
        yield number, harken.assemble_context(asked(number), types, directory=directory).markdown


def doors(harken: Harken, hooks: Hooks, places: Mapping[str, Path], project: str) -> Iterator[tuple[int, str]]:
    """Half of all prompts in a hook, those that the other project does not ask; fewer in slower doors.

    A folder of a repository is of it.
    """
    half = range(PROJECTS.index(project), len(FACTS), len(PROJECTS))
    yield from in_hooks(hooks, places[project] / "src" / "deep", half)
    yield from in_chats(harken, places[project], half[::7])
    yield from in_texts(harken, places[project], half[::10])


@pytest.mark.parametrize("project", PROJECTS)
def test_no_door_tells_one_project_what_another_said(
    harken: Harken, hooks: Hooks, places: dict[str, Path], project: str
) -> None:
    of_scope(harken, "project")
    own = 0
    for number, text in doors(harken, hooks, places, project):
        assert f"{OTHER[project]}-" not in text
        own += value(project, number) in text
    assert own >= 0.9 * len(FACTS) / len(PROJECTS)


@pytest.mark.parametrize("project", PROJECTS)
def test_another_project_is_named_and_comes_behind_ones_own(
    harken: Harken, hooks: Hooks, places: dict[str, Path], project: str
) -> None:
    of_scope(harken, "prefer")
    own = other = 0
    for number, text in doors(harken, hooks, places, project):
        own += value(project, number) in text
        other += f"{OTHER[project]}-" in text
        check_order(text, project)
    assert own >= 0.9 * len(FACTS) / len(PROJECTS)
    # Or nothing was shown by this.
    assert other > 0


def test_a_project_without_a_word_on_it_gets_what_another_knows_only_where_that_is_near_and_is_told_whose_it_is(
    harken: Harken, hooks: Hooks, places: dict[str, Path]
) -> None:
    of_scope(harken, "prefer")
    numbers = range(0, len(FACTS), 5)
    near = dict(in_hooks(hooks, places["third"], numbers))
    for text in near.values():
        assert all(f'project="{name}"' in marks for marks, words in quoted(text) for name in PROJECTS if name in words)
    assert sum(f"-{number:03}" in text for number, text in near.items()) >= len(numbers) / 2
    assert told(hooks, "How long does the train to Springfield take?", places["third"], "far") == ""
    of_scope(harken, "project")
    assert {text for _, text in in_hooks(hooks, places["third"] / "src", numbers)} == {""}


def test_with_all_nothing_is_held_back(harken: Harken, hooks: Hooks, places: dict[str, Path]) -> None:
    of_scope(harken, "all")
    texts = [text for _, text in in_hooks(hooks, places["north"], range(0, len(FACTS), 10))]
    firsts = [quoted(text)[1][1] for text in texts]
    assert 0 < sum("south-" in words for words in firsts) < len(firsts)


def test_the_home_folder_is_no_project_so_nothing_is_preferred_there(
    harken: Harken, hooks: Hooks, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_scope(harken, "prefer")
    monkeypatch.setenv("HOME", str(places["north"].parent))
    texts = [text for _, text in in_hooks(hooks, places["north"].parent, range(0, len(FACTS), 10))]
    assert all("north-" in text or "south-" in text for text in texts)
    assert not any("project=" in text for text in texts)


@pytest.mark.parametrize("mode", ["prefer", "project", "all"])
def test_what_was_saved_for_everywhere_comes_back_in_every_project(
    harken: Harken, hooks: Hooks, places: dict[str, Path], mode: str
) -> None:
    of_scope(harken, mode)
    question = "From which dairy does the office kitchen order its oat milk?"
    for name, folder in places.items():
        text = told(hooks, question, folder, f"milk {mode} {name}")
        assert "Springfield" in text
        assert "project=" not in text


def test_what_a_question_came_to_is_told_of_the_project_itself_where_it_was_asked_there(
    ready_home: Path, tmp_path: Path, places: dict[str, Path]
) -> None:
    question = "How do we deploy the payment gateway?"
    with Harken(ready_home, env={}) as harken:
        # The later answer is the other project's.
        for project in PROJECTS:
            harken.record_message(project, "user", question, directory=places[project])
            harken.record_message(project, "assistant", f"We decided on {project}-deploy.", directory=places[project])
        harken.embed()
        hooks = Hooks(harken, str(tmp_path / "reports"))
        for project, known in (("north", "north"), ("south", "south"), ("third", "south")):
            quotations = quoted(told(hooks, question, places[project], f"{project} again"))
            [before] = [words for _, words in quotations if "Asked before" in words]
            assert f"{known}-deploy" in before
