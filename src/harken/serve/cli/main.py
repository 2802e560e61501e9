"""The command group, and the boundary where errors become one line and an exit code."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import click
import structlog

from harken import __version__
from harken.errors import HarkenError, UsageError
from harken.serve.cli import (
    assembling,
    chatting,
    configuring,
    exporting,
    importing,
    indexed,
    indexing,
    inspecting,
    installing,
    learning,
    past,
    remembering,
    searching,
    serving,
    switching,
    talking,
    tasking,
    upkeep,
    working,
)
from harken.serve.cli.failing import is_help, line_of
from harken.serve.cli.session import CommandSession
from harken.serve.process import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE
from harken.serve.repl.command import chat
from harken.text.terminal import printable


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--home", type=click.Path(path_type=Path), help="Where everything is kept; also HARKEN_HOME.")
@click.option("--store", help="URL of the database, in place of the embedded file; also HARKEN_STORE.")
@click.option("--verbose", is_flag=True, help="Show the log on stderr.")
@click.version_option(__version__, prog_name="harken")
@click.pass_context
def cli(context: click.Context, home: Path | None, store: str | None, verbose: bool) -> None:
    """Memory for AI agents that comes back by itself.

    Start with `harken import`, which finds the histories of the agents on this machine, then `harken search`; or talk,
    with all of it in mind: `harken chat`.
    """
    _log_to_stderr(logging.DEBUG if verbose else logging.ERROR)
    context.obj = CommandSession(home, {} if store is None else {"store": store})


for command in (
    importing.import_command,
    exporting.export,
    searching.search,
    searching.show,
    indexing.index,
    indexed.code,
    indexed.commits,
    indexed.documents,
    inspecting.status,
    switching.summarizer,
    switching.embeddings,
    past.rag,
    configuring.config,
    chat,
    talking.new,
    talking.model,
    chatting.context_command,
    chatting.core,
    assembling.assemble,
    assembling.premortem,
    remembering.memory,
    learning.experience,
    learning.values,
    upkeep.doctor,
    upkeep.forget,
    upkeep.migrate,
    upkeep.reindex,
    upkeep.backup,
    upkeep.restore,
    working.worker,
    serving.serve,
    serving.hook,
    serving.mcp,
    installing.install_command,
    tasking.task,
):
    cli.add_command(command)


def run() -> None:
    """Run the command line; every failure is one line on stderr and an exit code."""
    try:
        code = cli.main(prog_name="harken", standalone_mode=False)
        sys.stdout.flush()
        # What a command ends with by `click.exceptions.Exit`; commands return nothing else.
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        if is_help(error):
            click.echo(error.format_message(), err=True)
        else:
            _say(line_of(error))
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _say("stopped; what was done is kept, and the next run goes on from there.")
        sys.exit(EXIT_INTERRUPTED)
    except HarkenError as error:
        _say(line_of(error))
        sys.exit(EXIT_USAGE if isinstance(error, UsageError) else EXIT_ERROR)
    except BrokenPipeError:
        # The reader of our output has gone (`harken … | head`): nothing more to say to anyone, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_ERROR)
    except Exception as error:  # noqa: BLE001 - the serve boundary: one line for people, the trace for --verbose
        _say(line_of(error))
        sys.exit(EXIT_ERROR)


def _say(line: str) -> None:
    click.echo(f"harken: {printable(line)}", err=True)


def _log_to_stderr(level: int) -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
