"""What an extra brings is missed in one line that names it, and works as soon as the extra is there.

The interpreter cannot import the libraries: a folder before all others holds modules of their names that fail.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from coding_agent import answering, end
from command_line import TIMEOUT_SECONDS, CommandLine
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.wire import exchange
from mcp_clients import over_stdio
from pdf_files import written_pdf
from repositories import new_repository

CODE = "Indexing python needs an extra that is not installed. Try: pip install 'harken[code]'"
PDF = "PDF files need an extra that is not installed. Try: pip install 'harken[pdf]'\n"


def without(cli: CommandLine, folder: Path, modules: Sequence[str]) -> CommandLine:
    """The same command line in an interpreter that lacks these modules."""
    folder.mkdir()
    for name in modules:
        words = f"No module named {name!r}"
        (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError({words!r}, name={name!r})\n")
    return replace(cli, cold=True, settings={**cli.settings, "PYTHONPATH": str(folder), "HARKEN_EMBEDDER": "none"})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = new_repository(tmp_path / "harbour").root
    (made / "pump.py").write_text("def walrus_pump():\n    return 1\n")
    (made / "manual.pdf").write_bytes(written_pdf("The walrus pump stands at the third quay"))
    return made


def test_a_pdf_that_was_passed_over_is_read_once_the_extra_is_there(
    cli: CommandLine, tmp_path: Path, project: Path
) -> None:
    lacking = without(cli, tmp_path / "lacking", ["pypdf"])
    for _ in range(2):
        said = lacking("index", "docs", project)
        assert "documents: 0 files read, 0 unchanged, 0 gone" in said.out
        assert "documents: passed over: 1 needs harken[pdf].\n" in said.out
        assert said.err.endswith(PDF)
    assert "walrus pump" not in cli("documents", "search", "walrus pump").out
    assert "documents: 1 file read, 0 unchanged, 0 gone (1 new part" in cli("index", "docs", project).out
    assert "walrus pump" in cli("documents", "search", "walrus pump").out
    assert "0 files read, 1 unchanged" in cli("index", "docs", project).out


@pytest.mark.parametrize(("what", "missing"), [("code", "tree_sitter"), ("all", "tree_sitter_python")])
def test_code_without_its_extra_is_one_line(
    cli: CommandLine, tmp_path: Path, project: Path, what: str, missing: str
) -> None:
    lacking = without(cli, tmp_path / "lacking", [missing])
    assert lacking.fails("index", what, project) == CODE
    assert lacking.fails("index", what, project, "--json") == CODE
    assert "code: 1 file read" in cli("index", "code", project).out


def test_python_raises_the_error_that_names_the_extra(cli: CommandLine, tmp_path: Path, project: Path) -> None:
    lacking = without(cli, tmp_path / "lacking", ["tree_sitter"])
    program = f"""
from harken import Harken
from harken.errors import MissingExtraError
with Harken({str(cli.home)!r}) as harken:
    try:
        harken.code.index({str(project)!r})
    except MissingExtraError as error:
        print(error.extra, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=lacking.environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    assert done.stdout == f"code {CODE}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")
def test_an_agent_is_told_the_extra(cli: CommandLine, place: DaemonPaths, tmp_path: Path, project: Path) -> None:
    lacking = without(cli, tmp_path / "lacking", ["tree_sitter"])

    async def ask() -> str:
        async with over_stdio(lacking, project, "auto") as client:
            answer = await client.call_tool("index_code", {"path": str(project)})
            assert answer.is_error
            return str(answer.content[0].text)

    try:
        assert CODE in anyio.run(ask)
    finally:
        end(place)


def test_without_what_makes_pages_the_daemon_serves_and_the_viewer_says_what_is_missing(
    cli: CommandLine, tmp_path: Path
) -> None:
    lacking = without(cli, tmp_path / "lacking", ["jinja2"])
    assert lacking.fails("view") == "The viewer needs an extra that is not installed. Try: pip install 'harken[server]'"
    with lacking.running("serve", "--quiet"):
        place = DaemonPaths(str(lacking.home))
        answering(lacking, place)
        status, answer = exchange(place.socket, "/v1/view", b"{}", lacking.environment(), TIMEOUT_SECONDS)
        assert (status, "harken[server]" in answer.decode()) == (503, True)
        end(place)


@pytest.mark.parametrize(
    ("words", "module", "extra"), [("key list", "psycopg", "postgres"), ("view", "starlette", "server")]
)
def test_a_command_that_meets_what_is_missing_only_where_it_is_imported_names_the_extra(
    cli: CommandLine, tmp_path: Path, words: str, module: str, extra: str
) -> None:
    lacking = without(cli, tmp_path / "lacking", [module])
    said = lacking.fails(*words.split())
    assert said == f"This needs an extra that is not installed. Try: pip install 'harken[{extra}]'"
