"""A repository indexed on either engine: found, shown with all its facts, and brought up to date."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

from harken import Harken
from harken.errors import NotFoundError, UsageError
from harken.model.conversations import SearchScope, Trust
from harken.sources.source import SourceHit
from harken.sources.workspace.tree import IndexReport
from harken.storage.tables import entries
from harken.testing.models import HashingEmbedder
from pdf_files import written_pdf
from repositories import Repository, new_repository

KEY = "ghp_" + "x7Kq2Lm9Rt4Vb8Nc3Wd6Yf1Hj5Ps0Zg2Xa4Q"
BUDGET = '''"""Who gets how much."""


def divide_budget(total: int, sources: list[str]) -> dict[str, int]:
    """Divide the token budget between sources."""
    return {name: total // len(sources) for name in sources}


class Purse:
    """Holds what is left."""

    def spend(self, amount: int) -> None:
        self.left -= amount
'''
NOW = datetime(2026, 5, 5, tzinfo=UTC)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return new_repository(tmp_path / "shop")


@pytest.fixture
def harken(tmp_path: Path, engine_settings: dict[str, Any]) -> Iterator[Harken]:
    with Harken(
        tmp_path / "home", settings=engine_settings, embedder=HashingEmbedder(), env={}, now=lambda: NOW
    ) as engine:
        yield engine


def changes(report: IndexReport) -> tuple[int, int, int]:
    return report.changes.added, report.changes.changed, report.changes.removed


def names(found: SourceHit) -> list[str]:
    return [item.metadata["qualified_name"] for item in found.items]


def test_code_is_found_and_shown_as_contexts_show_it(harken: Harken, repository: Repository) -> None:
    repository.commit("first", src__shop__budget_py=BUDGET)
    report = harken.code.index(repository.root)
    assert (report.files, report.indexed, changes(report)) == (1, 1, (4, 0, 0))
    harken.embed()
    found = harken.code.search("where is the token budget divided between sources")
    item = found.items[0]
    assert item.source == "code"
    assert item.content == (
        "**function** `divide_budget` in `src/shop/budget.py:4`\n```python\n"
        "def divide_budget(total: int, sources: list[str]) -> dict[str, int]:\n"
        "Divide the token budget between sources.\n```"
    )
    assert item.metadata == {
        "file_path": "src/shop/budget.py",
        "start_line": 4,
        "end_line": 6,
        "language": "python",
        "qualified_name": "shop.budget.divide_budget",
    }
    assert 0 < item.relevance <= 1
    assert found.hits[0].entry.trust is Trust.IMPORTED


def test_only_what_changed_is_made_again(harken: Harken, repository: Repository) -> None:
    repository.commit("first", a_py=BUDGET, b_py="def other(): ...\n")
    harken.code.index(repository.root)
    harken.embed()
    again = harken.code.index(repository.root)
    assert (again.indexed, again.unchanged, changes(again)) == (0, 2, (0, 0, 0))
    os.utime(repository.root / "b.py", ns=(1, 1))
    touched = harken.code.index(repository.root)
    assert (touched.indexed, touched.unchanged, changes(touched)) == (0, 2, (0, 0, 0))
    repository.write("a.py", "# A line more.\n" + BUDGET.replace("self.left -= amount", "self.left = 0"))
    edited = harken.code.index(repository.root)
    assert (edited.indexed, edited.unchanged, changes(edited)) == (1, 1, (0, 1, 0))
    assert harken.embed() == 1
    found = harken.code.search("divide the token budget")
    assert (names(found)[0], found.items[0].metadata["start_line"]) == ("a.divide_budget", 5)


def test_what_is_gone_is_not_found_and_the_rest_stays(harken: Harken, repository: Repository) -> None:
    repository.commit("first", deep__a_py=BUDGET, b_py="def other_thing(): ...\n", c_py="x = 1\n")
    harken.code.index(repository.root)
    repository.git("mv", "deep/a.py", "deep/moved.py")
    (repository.root / "b.py").unlink()
    repository.write(".gitignore", "c.py\n")
    inside = harken.code.index(repository.root / "deep")
    assert (inside.gone, inside.indexed) == (1, 1)
    assert names(harken.code.search("other thing")) != []
    report = harken.code.index(repository.root)
    assert report.gone == 1
    assert "b.other_thing" not in names(harken.code.search("other thing"))
    paths = {item.metadata["file_path"] for item in harken.code.search("divide budget purse").items}
    assert paths == {"deep/moved.py"}


def test_files_that_nobody_wrote_are_counted_once_and_not_read_again(harken: Harken, repository: Repository) -> None:
    repository.commit("first", a_py="def f(): ...\n", b_py="# @generated\ndef g(): ...\n")
    (repository.root / "c.py").write_bytes(b"x\0")
    for _ in range(2):
        report = harken.code.index(repository.root)
        assert dict(report.skipped) == {"generated": 1, "binary": 1}
    assert report.indexed == 0


@pytest.mark.parametrize("has_git", [True, False])
def test_a_file_whose_name_is_no_utf8_is_indexed_kept_and_dropped(
    harken: Harken, tmp_path: Path, has_git: bool
) -> None:
    place = tmp_path / os.fsdecode(b"sh\xf6p")
    root = new_repository(place).root if has_git else place
    root.mkdir(exist_ok=True)
    odd = root / os.fsdecode(b"b\xe9d.py")
    odd.write_text("def weigh_the_zebra(): pass\n")
    (root / os.fsdecode(b"b\xe9d.md")).write_text("Feed the zebra.\n")
    assert harken.code.index(root).indexed == 1
    assert harken.documents.index(root).indexed == 1
    (item,) = [one for one in harken.code.search("weigh zebra").items if "zebra" in one.content]
    assert item.metadata["file_path"] == "b\ufffdd.py"
    assert (harken.code.index(root).unchanged, harken.code.index(odd).unchanged) == (1, 1)
    if has_git:
        Repository(root).commit("weigh it")
        assert harken.commits.index(root).added == 1
        assert [one.message for one in harken.commits.history(odd)] == ["weigh it"]
    odd.unlink()
    assert (harken.code.index(root).gone, harken.code.search("weigh zebra").items) == (1, ())


def test_no_secret_of_a_repository_is_kept(harken: Harken, repository: Repository) -> None:
    code = f'"""Log in with {KEY}."""\nTOKEN = "{KEY}"\n\n\ndef login():\n    """Send {KEY}."""\n'
    repository.commit(f"Use the token {KEY}", a_py=code, b_md=f"Use {KEY}.\n")
    harken.code.index(repository.root)
    harken.commits.index(repository.root)
    harken.documents.index(repository.root)
    shown = harken.code.search("token").items + harken.commits.search("token").items
    shown += harken.documents.search("use").items
    assert {item.source for item in shown} == {"code", "commit", "document"}
    assert all(
        KEY not in item.content and "[redacted:" in item.content for item in shown if "harken" not in item.content
    )
    with harken.store.reading() as tx:
        rows = tx.connection.execute(tx.select(entries.c.text)).all()
    assert not any(KEY in row[0] for row in rows)
    assert len(rows) >= 3


def test_a_private_key_longer_than_a_passage_goes_whole_and_each_line_keeps_its_place(
    harken: Harken, tmp_path: Path
) -> None:
    body = [f"{number:02}" + "Qx7Kq2Lm9Rt4Vb8Nc3Wd6Yf1Hj5Ps0Zg2Xa4QeTuIoPlMkJn" for number in range(60)]
    key = ["-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----"]
    notes = ["# Deploy", "", "We use this key:", "", *key, "", "## Pumps", "", "The zebra pump is serviced in April."]
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "deploy.md").write_text("\n".join(notes))
    harken.documents.index(folder)
    for line in body:
        assert not harken.documents.search(line, mode="keyword").items
    [item] = harken.documents.search("zebra pump", mode="keyword").items
    last = item.metadata["end_line"]
    assert notes[last - 1] == "The zebra pump is serviced in April."


def test_files_are_read_again_once_there_are_other_rules_of_what_is_a_secret(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "guide.md").write_text("The zebra's badge is ZB-4711.\n")
    (folder / "guide.py").write_text('BADGE = "ZB-4711"\n')
    for patterns, shown in (({}, "ZB-4711"), ({"badge": r"ZB-\d+"}, "[redacted:badge]"), ({}, "ZB-4711")):
        settings = {"redaction.patterns": patterns, "embedder": "none"}
        with Harken(tmp_path / "home", settings=settings, env={}) as harken:
            assert (harken.documents.index(folder).changes.added, harken.code.index(folder).indexed) == (1, 1)
            assert harken.code.index(folder).unchanged == 1
            found = harken.documents.search("zebra").items[0], harken.code.search("badge").items[0]
            assert all(shown in item.content for item in found)


def test_what_stands_between_private_tags_in_code_is_not_kept(harken: Harken, repository: Repository) -> None:
    spared = 'def spared():\n    """Put it between `<private>` tags."""\n'
    hidden = '# <private>\nMERGER = "globex in May"\n\n\ndef price():\n    """Globex pays."""\n# </private>\n\n\n'
    repository.commit("first", a_py=f"{hidden}{spared}")
    harken.code.index(repository.root)
    found = {item.metadata["qualified_name"]: item for item in harken.code.search("spared", mode="keyword").items}
    assert found["a.spared"].metadata["start_line"] == 10
    assert not any(harken.code.search(word, mode="keyword").items for word in ("globex", "merger", "price"))


def test_a_private_key_in_a_comment_is_no_description(harken: Harken, repository: Repository) -> None:
    line = "Qx7Kq2Lm9Rt4Vb8Nc3Wd6Yf1Hj5Ps0Zg2Xa4QeTuIoPlMkJn"
    key = ["-----BEGIN PRIVATE KEY-----", *[line] * 4, "-----END PRIVATE KEY-----"]
    commented, bare = "\n".join(f"// {each}" for each in key), "\n".join(key)
    repository.write("a.go", f"package a\n\n{commented}\nfunc Sign() {{}}\n")
    repository.write("b.c", f"/* Signs.\n{bare}\n*/\nint sign(void) {{ return 1; }}\n")
    harken.code.index(repository.root)
    shown = [item.content for item in harken.code.search("sign", mode="keyword").items]
    assert sum("[redacted:private-key]" in content for content in shown) == 2
    assert not any(line in content for content in shown)


def test_code_like_a_snippet_is_found(harken: Harken, repository: Repository) -> None:
    repository.commit("first", a_py=BUDGET, b_go="package b\n\nfunc Spend(amount int) {}\n")
    harken.code.index(repository.root)
    harken.embed()
    snippet = "def divide_budget(total, sources):\n    return {name: total // len(sources) for name in sources}\n"
    assert names(harken.code.similar(snippet, language="python"))[0] == "a.divide_budget"
    assert names(harken.code.search("spend amount", language="go"))[0] == "Spend"
    assert names(harken.code.similar(snippet, language="Python"))[0] == "a.divide_budget"
    for ask in (harken.code.search, harken.code.similar):
        with pytest.raises(UsageError, match=r"no language 'cobol'. Languages: python, .*sql"):
            ask("x", language="cobol")
    with pytest.raises(UsageError, match="from 1 to 50"):
        harken.code.search("x", limit=51)


def test_commits_are_found_and_shown_as_contexts_show_them(harken: Harken, repository: Repository) -> None:
    repository.commit("Lay the foundation", a_py="1\n")
    sha = repository.commit("Divide the budget\n\nBetween sources.", "Bo Berg <bo@example.org>", a_py="2\n", b_py="1\n")
    report = harken.commits.index(repository.root)
    assert (report.added, report.known, report.removed) == (2, 0, 0)
    harken.embed()
    item = harken.commits.search("who divided the budget between sources").items[0]
    assert item.content == (
        f"**Commit** `{sha[:7]}` by Bo Berg on 2026-05-04T10:02:00+00:00\n"
        "Divide the budget\n\nBetween sources.\n*Files: a.py, b.py*"
    )
    assert item.metadata == {
        "sha": sha,
        "author": "Bo Berg",
        "timestamp": "2026-05-04T10:02:00+00:00",
        "files_changed": ["a.py", "b.py"],
        "insertions": 2,
        "deletions": 1,
    }
    for author in ("bo", "BO BERG", "bo@example.org"):
        found = harken.commits.search("budget foundation", author=author).items
        assert [one.metadata["sha"] for one in found] == [sha]
    late = harken.commits.search("budget foundation", since=datetime(2026, 5, 4, 10, 2, tzinfo=UTC)).items
    assert [one.metadata["sha"] for one in late] == [sha]


def test_a_history_goes_on_and_a_rewritten_one_is_followed(harken: Harken, repository: Repository) -> None:
    repository.commit("first", a_py="1\n")
    repository.commit("second thoughts", a_py="2\n")
    harken.commits.index(repository.root)
    repository.commit("third", a_py="3\n")
    assert harken.commits.index(repository.root).added == 1
    assert harken.commits.index(repository.root).known == 3
    repository.git("reset", "-q", "--hard", "HEAD~2")
    sha = repository.commit("second, said better", a_py="2\n")
    report = harken.commits.index(repository.root)
    assert (report.added, report.known, report.removed) == (1, 1, 2)
    assert [item.metadata["sha"] for item in harken.commits.search("second").items] == [sha]


def test_a_shallow_clone_does_not_take_its_edge_for_who_made_everything(
    harken: Harken, repository: Repository, tmp_path: Path
) -> None:
    made = [repository.commit(f"step {number}", **{f"f{number}_py": "1\n"}) for number in range(4)]
    repository.git("clone", "-q", "--depth=2", f"file://{repository.root}", str(tmp_path / "cut"))
    report = harken.commits.index(tmp_path / "cut")
    assert (report.added, report.cut) == (1, 1)
    assert [item.metadata["sha"] for item in harken.commits.search("step").items] == made[3:]
    assert harken.commits.index(tmp_path / "cut").known == 1
    Repository(tmp_path / "cut").git("fetch", "-q", "--unshallow")
    report = harken.commits.index(tmp_path / "cut")
    assert (report.added, report.known, report.cut) == (3, 1, 0)
    assert [one.sha for one in harken.commits.history(tmp_path / "cut" / "f2.py")] == [made[2]]


def test_a_shallow_clone_leaves_alone_what_a_whole_one_has_brought(
    harken: Harken, repository: Repository, tmp_path: Path
) -> None:
    repository.git("remote", "add", "origin", f"file://{repository.root}")
    for number in range(3):
        repository.commit(f"step {number}", a_py=f"{number}\n")
    assert harken.commits.index(repository.root).added == 3
    repository.git("clone", "-q", "--depth=1", f"file://{repository.root}", str(tmp_path / "cut"))
    report = harken.commits.index(tmp_path / "cut")
    assert (report.added, report.removed) == (0, 0)
    assert len(harken.commits.search("step").items) == 3


def test_a_large_commit_is_found_by_each_thing_that_it_made_and_once(harken: Harken, repository: Repository) -> None:
    others = {f"part{number}_py": f'def step_{number}():\n    """Walk {number} yards."""\n' for number in range(5)}
    made = repository.commit("Lay everything down", "Bo <bo@example.org>", shop__purse_py=BUDGET, **others)
    repository.commit("Tidy up", a_py="1\n")
    repository.commit("Touch the purse", shop__purse_py=BUDGET + "\n# spent\n")
    harken.commits.index(repository.root)
    harken.embed()
    for mode in ("hybrid", "keyword"):
        found = harken.commits.search("where is the token budget divided between sources", mode=mode).items
        assert found[0].metadata["sha"] == made
        assert [item.metadata["sha"] for item in found].count(made) == 1
    assert [item.metadata["sha"] for item in harken.commits.search("walk yards", author="bo").items] == [made]
    hits = harken.search("walk yards", scope=SearchScope(sources=("commit",))).hits
    assert len({hit.entry.ref_uid for hit in hits}) == len(hits)


def test_what_stands_deep_in_a_long_function_is_found_by_its_words_alone(
    harken: Harken, repository: Repository
) -> None:
    steps = "".join(f"    call_number_{number}()\n" for number in range(30))
    repository.commit("first", a_py=f"def walk():\n{steps}    whistle()\n")
    harken.code.index(repository.root)
    harken.embed()
    assert names(harken.code.search("whistle", mode="keyword")) == ["a.walk"]
    assert names(harken.code.search("whistle", mode="semantic")) == []
    assert names(harken.code.search("walk by call number", mode="semantic"))[0] == "a.walk"


def test_a_function_is_found_by_what_its_class_and_module_are_for(harken: Harken, repository: Repository) -> None:
    step = 'def step():\n    """Take the next one."""\n'
    repository.commit(
        "first", a_py='"""Ferries over the river."""\n\n\n' + step, b_py='"""Bakes bread."""\n\n\n' + step
    )
    harken.code.index(repository.root)
    harken.embed()
    assert names(harken.code.search("take a step over the river"))[0] == "a.step"


def test_commits_of_another_branch_stay(harken: Harken, repository: Repository) -> None:
    repository.commit("first", a_py="1\n")
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("sidestep", b_py="1\n")
    harken.commits.index(repository.root)
    repository.git("checkout", "-q", "main")
    repository.commit("mainstay", c_py="1\n")
    assert harken.commits.index(repository.root).removed == 0
    assert len(harken.commits.search("sidestep").items) == 1


def test_commits_of_a_branch_that_is_deleted_go_though_the_head_stays(harken: Harken, repository: Repository) -> None:
    repository.commit("first", a_py="1\n")
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("sidestep", b_py="1\n")
    harken.commits.index(repository.root)
    repository.git("checkout", "-q", "main")
    assert harken.commits.index(repository.root).removed == 0
    repository.git("branch", "-q", "-D", "side")
    assert harken.commits.index(repository.root).removed == 1
    assert not harken.commits.search("sidestep").items


def test_a_bounded_history_is_completed_when_more_is_asked_for(harken: Harken, repository: Repository) -> None:
    for number in range(5):
        repository.commit(f"step {number}", a_py=f"{number}\n")
    assert harken.commits.index(repository.root, limit=2).added == 2
    assert harken.commits.index(repository.root).added == 3


def test_files_have_a_history_through_renames_authors_and_churn(harken: Harken, repository: Repository) -> None:
    first = repository.commit("first", old_py="line\n" * 20, other_py="1\n")
    repository.git("mv", "old.py", "new.py")
    second = repository.commit("rename")
    third = repository.commit("change", "Bo <bo@example.org>", new_py="line\n" * 21)
    with pytest.raises(NotFoundError, match="harken index commits"):
        harken.commits.churn(repository.root)
    harken.commits.index(repository.root)
    history = harken.commits.history(repository.root / "new.py")
    assert [commit.sha for commit in history] == [third, second, first]
    assert [commit.sha for commit in harken.commits.history(repository.root / "old.py")] == [first]
    churned = harken.commits.churn(repository.root, days=2)
    assert [(one.path, one.changes, one.insertions, one.authors) for one in churned[:1]] == [("new.py", 2, 1, 2)]
    who = harken.commits.authors(repository.root)
    assert [(one.author, one.commits, one.insertions) for one in who] == [("Ann Lee", 2, 21), ("Bo", 1, 1)]
    assert [one.author for one in harken.commits.authors(repository.root / "other.py")] == ["Ann Lee"]


def test_a_file_that_may_change_within_a_tick_of_the_clock_is_read_again(
    harken: Harken, repository: Repository
) -> None:
    soon = time.time_ns() + 3_600_000_000_000
    file = repository.write("a.py", "def zebra(): ...\n")
    os.utime(file, ns=(soon, soon))
    assert harken.code.index(repository.root).indexed == 1
    file.write_text("def camel(): ...\n")
    os.utime(file, ns=(soon, soon))
    changed = harken.code.index(repository.root)
    assert (changed.indexed, names(harken.code.search("camel"))[0]) == (1, "a.camel")
    assert harken.code.index(repository.root).unchanged == 1


def test_progress_goes_by_the_bytes_of_what_is_read(harken: Harken, repository: Repository) -> None:
    # Long ago, so that its time says that it is as it was.
    os.utime(repository.write("same.py", "def kept(): ...\n"), ns=(1, 1))
    harken.code.index(repository.root)
    sizes = [repository.write(f"m{number}.py", "x = 1\n" * 10 * number).stat().st_size for number in range(1, 101)]
    told: list[tuple[int, int]] = []
    harken.code.index(repository.root, lambda done, total: told.append((done, total)))
    assert len(told) > 1
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (sum(sizes), sum(sizes))


def test_one_file_that_would_take_minutes_is_passed_over(harken: Harken, repository: Repository) -> None:
    repository.commit("A tangle", tangle_py="(\n" * 300_000, plain_py=BUDGET)
    report = harken.code.index(repository.root)
    assert (report.indexed, report.skipped) == (1, {"tangled": 1})
    assert names(harken.code.search("divide budget"))[0] == "plain.divide_budget"
    assert harken.code.index(repository.root).skipped == {"tangled": 1}


def test_texts_of_tests_are_found_by_their_words_alone(harken: Harken, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (folder / "tests" / "data").mkdir(parents=True)
    (folder / "tests" / "data" / "lines.txt").write_text("zebra password of a test\n")
    (folder / "guide.txt").write_text("giraffe guide of a person\n")
    harken.documents.index(folder)
    assert harken.embed() == 1
    assert [item.metadata["file_path"] for item in harken.documents.search("zebra").items] == ["tests/data/lines.txt"]


def test_specs_and_what_is_written_on_testing_are_found_by_their_meaning(harken: Harken, tmp_path: Path) -> None:
    for name in ("specs/001-login/spec.md", ".kiro/specs/login/design.md", "docs/test.md", "spec.md"):
        file = tmp_path / "notes" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("The zebra signs in by a link.\n")
    Repository(tmp_path / "notes").git("init", "-q")
    harken.documents.index(tmp_path / "notes")
    harken.embed()
    assert len(harken.documents.search("zebra signs in by link", mode="semantic").items) == 4


def test_a_line_ends_where_editors_end_it(harken: Harken, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "rfc.txt").write_text("One.\n\f\nTwo\u2028two.\n\f\nZebra.\n")
    harken.documents.index(tmp_path / "notes")
    [item] = harken.documents.search("zebra").items
    assert (item.metadata["start_line"], item.metadata["end_line"]) == (1, 5)


def test_documents_are_found_under_their_headings(harken: Harken, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "guide.md").write_text("# Guide\n\n## Setup\n\nInstall the zebra first.\n")
    (folder / "paper.pdf").write_bytes(written_pdf("Nothing here", "A giraffe on the second page"))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    report = harken.documents.index(folder)
    assert (report.files, report.indexed, dict(report.skipped)) == (3, 2, {"broken": 1})
    item = harken.documents.search("zebra install").items[0]
    assert item.content == "**Document** `guide.md:1` (Guide)\n# Guide\n\n## Setup\n\nInstall the zebra first."
    assert item.metadata == {"file_path": "guide.md", "start_line": 1, "end_line": 5, "headings": ["Guide"]}
    page = harken.documents.search("giraffe").items[0]
    assert (page.metadata["file_path"], page.metadata["end_line"]) == ("paper.pdf", 2)
    (folder / "guide.md").unlink()
    assert harken.documents.index(folder).gone == 1
    assert harken.documents.search("zebra").items == ()


def test_two_that_index_at_once_do_nothing_twice(harken: Harken, repository: Repository) -> None:
    for number in range(30):
        repository.write(f"m{number}.py", f"def f{number}(): ...\n")
    repository.commit("first")
    with ThreadPool(3) as pool:
        reports = pool.map(lambda _: harken.code.index(repository.root), range(3))
        read = pool.map(lambda _: harken.commits.index(repository.root), range(3))
    assert sum(report.changes.added for report in reports) == 60
    assert sum(report.added for report in read) == 1
    with harken.store.reading() as tx:
        # Two of each file, the commit, and what it brought into each file.
        assert tx.count(entries, entries.c.source.in_(["code", "commit"])) == 60 + 1 + 30


def test_conversations_and_plain_searches_do_not_see_what_was_indexed(harken: Harken, repository: Repository) -> None:
    repository.commit("zebra commit", a_py="def zebra(): ...\n", b_md="A zebra.\n")
    harken.code.index(repository.root)
    harken.commits.index(repository.root)
    harken.documents.index(repository.root)
    harken.record_message("talk", "user", "What about the zebra in the zoo?")
    harken.embed()
    assert {hit.entry.source for hit in harken.search("zebra").hits} == {"message"}
    everything = harken.search("zebra", scope=SearchScope(sources=("code", "commit", "document")))
    assert {hit.entry.source for hit in everything.hits} == {"code", "commit", "document"}
    recall = harken.auto_rag("talk", "Tell me everything about the zebra in our zoo")
    assert "def zebra" not in str(recall)
    assert "zebra commit" not in str(recall)
