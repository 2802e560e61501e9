"""`harken assemble` and `harken premortem`: one context out of everything that is remembered."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from harken.context.assembler import CONTEXT_TYPES
from harken.model.conversations import FormattedContext
from harken.model.experiences import DOMAINS, STRATEGIES
from harken.serve.cli.session import CommandSession, json_option, print_json, untrusted_option, with_session
from harken.sources.found import MAX_LIMIT
from harken.text.terminal import printable


def _options(limit: int, max_tokens: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        most = click.option(
            "--limit", type=click.IntRange(1, MAX_LIMIT), default=limit, show_default=True, help="So many of each kind."
        )
        size = click.option(
            "--max-tokens", type=click.IntRange(1), default=max_tokens, show_default=True, help="Soft limit of all."
        )
        return most(size(json_option(with_session(command))))

    return decorated


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--types", default=",".join(CONTEXT_TYPES), show_default=True, help="What is looked into, by commas.")
@click.option("--project", help="Code, commits and documents only of this one: its short name, key or folder.")
@untrusted_option
@_options(20, 2000)
def assemble(
    session: CommandSession,
    query: tuple[str, ...],
    types: str,
    project: str | None,
    no_untrusted: bool,
    limit: int,
    max_tokens: int,
    as_json: bool,
) -> None:
    """Print what is known about QUERY as Markdown: memories, code, experiences, values, commits and more."""
    names = [name.strip() for name in types.split(",") if name.strip()]
    with session.engine() as harken:
        asked = (" ".join(query), names, limit, max_tokens)
        context = harken.assembler.assemble_context(*asked, include_untrusted=not no_untrusted, project=project)
    _print(session, context, as_json)


@click.command()
@click.argument("domain", type=click.Choice(DOMAINS))
@click.option("--strategy", type=click.Choice(STRATEGIES), help="How the work is to be done.")
@_options(10, 1500)
def premortem(
    session: CommandSession, domain: str, strategy: str | None, limit: int, max_tokens: int, as_json: bool
) -> None:
    """Print what has gone wrong in work of DOMAIN, and why, before it begins."""
    with session.engine() as harken:
        context = harken.assembler.get_premortem_context(domain, strategy, limit, max_tokens)
    _print(session, context, as_json)


def _print(session: CommandSession, context: FormattedContext, as_json: bool) -> None:
    if as_json:
        print_json(asdict(context))
    elif context.markdown:
        sys.stdout.write(f"{printable(context.markdown)}\n")
    else:
        session.note("Nothing was found.")
