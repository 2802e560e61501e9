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
    EXIT_INTERRUPTED,
    assembling,
    chatting,
    configuring,
    exporting,
    importing,
    indexed,
    indexing,
    inspecting,
    learning,
    past,
    remembering,
    searching,
    switching,
    tasking,
    upkeep,
    working,
)
from harken.serve.cli.session import Session

EXIT_ERROR, EXIT_USAGE = 1, 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--home", type=click.Path(path_type=Path), help="Where everything is kept; also HARKEN_HOME.")
@click.option("--store", help="URL of the database, in place of the embedded file; also HARKEN_STORE.")
@click.option("--verbose", is_flag=True, help="Show the log on stderr.")
@click.version_option(__version__, prog_name="harken")
@click.pass_context
def cli(context: click.Context, home: Path | None, store: str | None, verbose: bool) -> None:
    """Memory for AI agents that comes back by itself.

    Start with `harken import`, which finds the histories of the agents on this machine, then `harken search`.
    """
    _log_to_stderr(logging.DEBUG if verbose else logging.ERROR)
    context.obj = Session(home, {} if store is None else {"store": store})


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
        _say_usage(error)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _say("stopped; what was done is kept, and the next run goes on from there.")
        sys.exit(EXIT_INTERRUPTED)
    except UsageError as error:
        _say(str(error))
        sys.exit(EXIT_USAGE)
    except HarkenError as error:
        _say(str(error))
        sys.exit(EXIT_ERROR)
    except BrokenPipeError:
        # The reader of our output has gone (`harken … | head`): nothing more to say to anyone, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_ERROR)
    except Exception as error:  # noqa: BLE001 - the serve boundary: one line for people, the trace for --verbose
        structlog.get_logger(__name__).debug("command_failed", error_class=type(error).__name__, exc_info=True)
        _say(f"unexpected {type(error).__name__}; run again with --verbose, and please report it.")
        sys.exit(EXIT_ERROR)


def _say_usage(error: click.ClickException) -> None:
    message = error.format_message()
    if "\n" in message:
        # A command group without a command: its whole help is the answer.
        click.echo(message, err=True)
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    _say(f"{message} See: {context.command_path if context else 'harken'} --help")


def _say(text: str) -> None:
    click.echo(f"harken: {' '.join(text.split())}", err=True)


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
