"""Errors as one line for people, wherever a command was typed."""

from __future__ import annotations

import click
import structlog

from harken.errors import HarkenError


def is_help(error: click.ClickException) -> bool:
    """Whether a command group was called without a command: its whole help is the answer then."""
    return isinstance(error, click.exceptions.NoArgsIsHelpError)


def line_of(error: Exception) -> str:
    """The error as one line; one that nobody meant to raise is logged with its trace, for `--verbose`."""
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        text = f"{error.format_message()} See: {context.command_path if context else 'harken'} --help"
    elif isinstance(error, HarkenError):
        text = str(error)
    else:
        structlog.get_logger(__name__).debug("command_failed", error_class=type(error).__name__, exc_info=error)
        text = f"unexpected {type(error).__name__}; run again with --verbose, and please report it."
    return " ".join(text.split())
