"""What commits added to code, from patches as git writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from textwrap import dedent

from harken.model.workspace import Addition
from harken.sources.workspace.commits import parse_patch
from harken.sources.workspace.git import find_repository
from harken.sources.workspace.languages import SUFFIXES
from repositories import Repository

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def added(repository: Repository) -> list[Addition]:
    """What the newest commit added."""
    git = find_repository(repository.root)
    assert git is not None
    sha = git.shas(LONG_AGO, 1)[0]
    return list(parse_patch(git.patches([sha], SUFFIXES).get(sha, "")))


def test_definitions_come_with_the_first_line_that_is_said_of_them(repository: Repository) -> None:
    code = dedent(
        '''
        """Who gets what.

        And why.
        """

        class Share:
            """A part of the whole."""

            async def of(
                self,
                total: int,
            ) -> int:
                """So many tokens.

                Args: one.
                """

        def plain(): ...
        '''
    ).lstrip()
    repository.commit("first", a_py=code)
    definitions = (("Share", "A part of the whole."), ("of", "So many tokens."), ("plain", ""))
    assert added(repository) == [Addition("a.py", "Who gets what.", definitions)]


def test_only_what_is_new_counts_and_a_moved_file_is_not(repository: Repository) -> None:
    repository.commit("first", a_py="def one():\n    return 1\n" * 9, b_py="x = 1\n")
    repository.git("mv", "a.py", "c.py")
    repository.commit("second", b_py='x = 1\n\n\ndef two():\n    """Twice one."""\n')
    assert added(repository) == [Addition("b.py", "", (("two", "Twice one."),))]


def test_comments_before_a_definition_speak_for_it_in_other_languages(repository: Repository) -> None:
    go = "package b\n\n// Spend takes tokens away.\n// For good.\nfunc (b *Budget) Spend(n int) {}\n"
    rust = "/// What is left.\n#[inline]\npub(crate) fn left() -> u32 { 3 }\n\n/// Room.\npub struct Room;\n"
    script = "/**\n * Divides the room.\n */\nexport default function divide() {}\n"
    repository.commit("first", b_go=go, l_rs=rust, s_ts=script, t_sql="create table shares (id int);\n")
    found = {each.path: each.definitions for each in added(repository)}
    assert found == {
        "b.go": (("Spend", "Spend takes tokens away."),),
        "l.rs": (("left", ""), ("Room", "Room.")),
        "s.ts": (("divide", "Divides the room."),),
        "t.sql": (("shares", ""),),
    }


def test_prose_and_files_of_no_known_language_define_nothing(repository: Repository) -> None:
    repository.commit("first", a_md="class of 1999\ndef: a word\n", b_py="# def is a word\nprint('class')\n")
    assert added(repository) == []


def test_strange_names_and_a_repositorys_own_prefixes_do_no_harm(repository: Repository) -> None:
    repository.git("config", "diff.noprefix", "true")
    repository.git("config", "diff.mnemonicPrefix", "true")
    repository.write("odd ünd name.py", "def one(): ...\n")
    repository.commit("first")
    assert [each.path for each in added(repository)] == ["odd ünd name.py"]
