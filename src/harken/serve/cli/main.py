"""The command group, and the boundary where errors become one line and an exit code."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
import textwrap
from io import TextIOWrapper
from pathlib import Path

import click

from harken import __version__
from harken.errors import UsageError
from harken.serve.cli.commands import LazyGroup
from harken.serve.cli.session import CommandSession, line_of, log_to_stderr
from harken.serve.process import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE
from harken.text.characters import printable

# Every command by the module that it stands in, with its line in lists: help and completion import nothing else.
_COMMANDS = {
    "operations.contexts": {
        "assemble": "Print what is known about QUERY as Markdown: memories, code, experiences, values, commits and "
        "more.",
        "context": "Show what a model would get to see if TEXT were said now: each layer, its tokens, and why it "
        "is there.",
        "premortem": "Print what has gone wrong in work of DOMAIN, and why, before it begins.",
    },
    "operations.conversations": {
        "list": "List conversations by day, project or agent; `harken show 2` shows the second.",
    },
    "operations.labels": {
        "conversations": "Correct what a conversation is called and belongs to; see what they are about.",
        "tag": "List all tags; give some to a conversation or a memory, take some from it.",
        "digest": "Print as Markdown what was decided in each topic of three conversations or more, and what is open.",
        "topics": "Show what conversations are about, the largest topic first.",
    },
    "cli.upkeep": {
        "backup": "Write one file with everything, while others go on using the store.",
        "config": "Show the settings that differ from their defaults, and where each comes from; set one for good.",
        "doctor": "Check that database, journal, full text and vectors agree; exit 0 only when all does.",
        "forget": "Forget messages for good: the words are erased everywhere, and only their ids remain.",
        "migrate": "Make or upgrade the tables of the store, as their owner; an embedded store is upgraded "
        "whenever it is opened.",
        "reindex": "Embed everything again, or make the whole database anew from the journal; ids stay as they are.",
        "restore": "Put a backup into a home that has no store yet.",
    },
    "cli.talking": {
        "chat": "Talk with the configured model, with all that is remembered; with a MESSAGE, have it answered "
        "and leave.",
        "core": "What the agent always knows of its user and of itself: small values that stand in every context.",
        "model": "Show the language model, or have another one answer from now on: NAME is vendor:model, e.g. "
        "openai:gpt-5-mini.",
        "new": "Begin a new segment of a conversation: what was said stays, and the model starts with a clean window.",
        "task": "Run scheduled tasks, each with what it did before, and see what they did.",
    },
    "cli.indexing": {
        "code": "Find code that was indexed (`harken index code`).",
        "commits": "Find commits that were indexed (`harken index commits`), and count what they say of files and "
        "people.",
        "documents": "Find passages of documents that were indexed (`harken index docs`).",
        "index": "Make code, commits and documents searchable; only what has changed since the last time is read.",
    },
    "cli.working": {
        "embeddings": "Show how embedding stands, switch it on or off, or have everything, or all of one kind, "
        "embedded again.",
        "summarizer": "Show how summaries stand, or switch them on or off; both kinds unless one is named.",
        "worker": "Run and watch the background work.",
    },
    "cli.measuring": {"bench": "Measure search and recall on your own history, without a language model."},
    "operations.experiences": {"experience": "What was tried, on what hypothesis, and how it went."},
    "operations.values": {"values": "Principles that clusters of experiences bear out."},
    "cli.importing": {
        "export": "Write everything that was recorded to a file, or with `-` to stdout.",
        "import": "Import conversations: claude-code, codex, chatgpt, claude-ai or jsonl files, and exports of Harken.",
    },
    "cli.serving": {
        "hook": "Answer an event of a coding agent: its JSON on stdin, ours on stdout. Agents start this, not people.",
        "mcp": "Serve MCP on stdin and stdout: the command of an MCP server in any agent's configuration.",
        "serve": "Keep the model loaded and the workers running, for hooks and other clients of this home.",
        "view": "Look at what is remembered, in a browser: conversations, search, what came back and why, memories, "
        "upkeep.",
    },
    "cli.hosting": {
        "team": "A memory for several, on a server: begin one.",
        "whoami": "Say who asks, by which key, what it may, and which spaces it reaches.",
    },
    "cli.installing": {
        "install": "Put memory into a coding agent's settings: hooks, where it has them, and the MCP server.",
        "setup": "Find the agents and histories of this machine, import, install, choose a model: each is asked first.",
    },
    "team.people": {
        "erase": "Erase a person for good: their keys, their words in every space, and their name.",
        "group": "Groups that spaces can be granted to; everybody is in the group `everyone`.",
        "key": "Keys, by which a server knows who asks.",
        "principal": "Who is in the team: people, agents and services.",
    },
    "team.spaces": {
        "share": "Copy a message, an exchange, a conversation, a memory or an experience into a space.",
        "space": "Spaces: one's own, which is private, and those that a team shares.",
        "unshare": "Forget the copies of something that was shared.",
    },
    "operations.saved": {"memory": "Facts, preferences, decisions: what was saved on purpose, found by every search."},
    "operations.rules": {
        "rules": "List the rules and preferences that you have stated, newest first; confirm one, drop one."
    },
    "cli.past": {"rag": "Past conversations that come back by themselves: show and change how."},
    "operations.webhooks": {
        "webhook": "Tell other programs what is recorded, remembered, forgotten or due for review: signed, with ids "
        "and times, never with words.",
    },
    "operations.searching": {
        "search": "Find what was said or saved, by word and by meaning; code, commits and documents with --source.",
        "show": "Show a message in its surroundings, an exchange, a whole conversation, a memory, an experience, code…",
    },
    "operations.status": {
        "status": "Show how much there is, and how it stands.",
        "stats": "Count what was said, came back by itself and was useful, and what models cost: by agent, project, "
        "month and week.",
    },
}
# A blank at which no line is broken.
_STICKY = "\u00a0"
_NUMBERS = "harken-numbers"
COMMANDS = {
    name: (f"harken.serve.{module}", line) for module, commands in _COMMANDS.items() for name, line in commands.items()
}
SECTIONS = {
    "Every day": (
        *("setup", "import", "search", "view", "list", "show", "chat", "memory", "rules", "tag", "conversations"),
        *("topics", "digest", "forget", "status", "stats", "config", "core", "new", "model", "rag", "context"),
    ),
    "Agents and their work": (
        *("install", "assemble", "premortem", "experience", "values", "task"),
        *("index", "code", "commits", "documents", "mcp", "hook"),
    ),
    "A team": ("team", "whoami", "principal", "group", "key", "space", "share", "unshare", "erase"),
    "Server and upkeep": (
        *("serve", "worker", "embeddings", "summarizer", "doctor", "bench", "backup", "restore", "export", "reindex"),
        *("migrate", "webhook"),
    ),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option("--home", type=click.Path(), help="Where everything is kept; also HARKEN_HOME.")
@click.option("--store", help="URL of the database, in place of the embedded file; also HARKEN_STORE.")
@click.option("--space", help="Of a team: the space that is written to, in place of your own.")
@click.option("--verbose", is_flag=True, help="Show the log on stderr.")
@click.version_option(__version__, prog_name="harken")
@click.pass_context
def cli(context: click.Context, home: str | None, store: str | None, space: str | None, verbose: bool) -> None:
    """Memory for AI agents that comes back by itself.

    Start with `harken setup`, or with `harken import`, which finds the histories of the agents on this machine, then
    `harken search`; or talk, with all of it in mind: `harken chat`.
    """
    log_to_stderr("DEBUG" if verbose else "ERROR")
    overrides = {} if store is None else {"store": store}
    context.obj = CommandSession(Path(home) if home else None, overrides, verbose, space)


def _by_numbers(error: UnicodeError) -> tuple[str, int]:
    """What a locale has no letters for, as JSON has it: that is read by people and by programs."""
    import json

    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def run() -> None:
    """Run the command line; every failure is one line on stderr and an exit code."""
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:
            # Started without it; else the next file that is opened would have its number, and be taken for it.
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - until the end
    if isinstance(sys.stdout, TextIOWrapper) and codecs.lookup(sys.stdout.encoding).name != "utf-8":
        codecs.register_error(_NUMBERS, _by_numbers)
        sys.stdout.reconfigure(errors=_NUMBERS)
    try:
        code = cli.main(prog_name="harken", standalone_mode=False)
        sys.stdout.flush()
        # What a command ends with by `click.exceptions.Exit`; commands return nothing else.
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            # A group was called without a command: its whole help is the answer. `harken` alone asks for nothing else.
            is_whole = error.ctx is not None and error.ctx.parent is None
            click.echo(error.format_message(), err=not is_whole)
            if is_whole:
                sys.exit(0)
        else:
            _say(line_of(error))
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _say("stopped; what was done is kept, and the next run goes on from there.")
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone (`harken … | head`): nothing more to say to anyone, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_ERROR)
    except Exception as error:  # noqa: BLE001 - the serve boundary: one line for people, the trace for --verbose
        _say(line_of(error))
        sys.exit(EXIT_USAGE if isinstance(error, UsageError) else EXIT_ERROR)


def _say(line: str) -> None:
    line = f"harken: {printable(line)}"
    if sys.stderr.isatty():
        # Broken between words; a path stays whole, and so does a command at the end, to be copied.
        said, is_named, command = line.partition(": harken ")
        line = f"{said}: " + f"harken {command}".replace(" ", _STICKY) if is_named else line
        width = shutil.get_terminal_size().columns
        line = textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        line = line.replace(_STICKY, " ")
    click.echo(line, err=True)
