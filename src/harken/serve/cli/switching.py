"""`harken summarizer` and `harken embeddings`: background work switched on and off, how it stands, and made again."""

from __future__ import annotations

from collections.abc import Sequence

import click

from harken.engine import Harken
from harken.errors import UsageError
from harken.jobs.workers import EMBEDDINGS
from harken.serve.cli.backfilling import backfill
from harken.serve.cli.rebuilding import rebuild
from harken.serve.cli.reporting import print_pipeline, print_summarizer, summaries_words, title_line
from harken.serve.cli.session import CommandSession, json_option, print_json, with_session
from harken.serve.facts.standing import report_facts
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE, TOOLS

_SWITCHES = {"on": True, "off": False}
_SUMMARIZERS = (CONVERSATION, EXCHANGE)
_SUMMARIZER_FORMS = "[conversation|exchange] [on|off] | backfill"
_EMBEDDINGS_FORMS = "[on|off|rebuild [conversations|exchanges]]"
_REBUILT = {(): (), ("conversations",): (CONVERSATION,), ("exchanges",): (EXCHANGE, TOOLS)}


@click.command()
@click.argument("words", nargs=-1, metavar=_SUMMARIZER_FORMS)
@click.option("--project", help="With backfill: only this project, by its key or short name.")
@click.option("--since", help="With backfill: only what began then or later: 2026-05-08, yesterday, '2 weeks ago'.")
@click.option("--yes", is_flag=True, help="With backfill: do not ask.")
@json_option
@with_session
def summarizer(
    session: CommandSession, words: tuple[str, ...], project: str | None, since: str | None, yes: bool, as_json: bool
) -> None:
    """Show how summaries stand, or switch them on or off; both kinds unless one is named.

    `on` without a kind switches the embedding of summaries on as well: without it they come back by their words alone.

    A language model summarizes what is said after it was set; what is older, or imported, is summarized by extraction,
    which costs nothing. `backfill` says what it costs to have the model do that too, and does it once you agree.
    """
    if words == ("backfill",):
        backfill(session, project, since, yes, as_json)
        return
    if project is not None or since is not None or yes:
        raise UsageError(f"--project, --since and --yes belong to a backfill. Say: {session.prefix}summarizer backfill")
    named = words[:1] if words[:1] and words[0] in _SUMMARIZERS else ()
    switch = _switch_of(session, "summarizer", _SUMMARIZER_FORMS, words, words[len(named) :])
    with session.engine() as harken:
        if switch is not None:
            with_pipeline = (EMBEDDINGS,) if switch and not named else ()
            _switch(session, harken, (*(named or _SUMMARIZERS), *with_pipeline), switch)
        reports = {report.name: report for report in harken.background.status()}
        has_model = _has_model(harken)
        behind = summaries_words(harken, session.prefix) if harken.chat.model_name else ""
    shown = [reports[name] for name in named or _SUMMARIZERS]
    if as_json:
        print_json([report_facts(report) for report in shown])
        return
    for report in shown:
        print_summarizer(session, report)
        if not named:
            session.out.print()
    if not named:
        details = f"(see {session.prefix}embeddings for details)"
        session.out.print(f"{title_line(reports[EMBEDDINGS], has_model)} {details}", markup=False)
    if behind:
        session.out.print(behind, markup=False)


@click.command()
@click.argument("words", nargs=-1, metavar=_EMBEDDINGS_FORMS)
@click.option("--yes", is_flag=True, help="Do not ask before a rebuild.")
@json_option
@with_session
def embeddings(session: CommandSession, words: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Show how embedding stands, switch it on or off, or have everything, or all of one kind, embedded again."""
    if words[:1] == ("rebuild",):
        if words[1:] not in _REBUILT:
            raise _not_understood(session, "embeddings", _EMBEDDINGS_FORMS, words)
        rebuild(session, _REBUILT[words[1:]], yes, as_json)
        return
    switch = _switch_of(session, "embeddings", _EMBEDDINGS_FORMS, words, words)
    with session.engine() as harken:
        if switch is not None:
            _switch(session, harken, (EMBEDDINGS,), switch)
        (report,) = harken.background.status(EMBEDDINGS)
        vectors = harken.background.vectors()
        space = harken.upkeep.status().space
        model = (space or harken.settings.embedder) if _has_model(harken) else ""
    if as_json:
        counts = {source: {"embedded": v.embedded, "waiting": v.waiting} for source, v in vectors.items()}
        print_json([{**report_facts(report), "vectors": counts}])
    else:
        print_pipeline(session, report, vectors, model)


def _has_model(harken: Harken) -> bool:
    return harken.settings.embedder != "none"


def _switch(session: CommandSession, harken: Harken, names: Sequence[str], enabled: bool) -> None:
    for name in names:
        harken.background.switch(name, enabled)
    if enabled and session.opened is not None:
        # Whoever switches work on in a chat means to have it done there.
        harken.background.start(names)


def _switch_of(
    session: CommandSession, command: str, forms: str, words: Sequence[str], rest: Sequence[str]
) -> bool | None:
    """What is to be switched; None to show how it stands."""
    if len(rest) > 1 or any(word not in _SWITCHES for word in rest):
        raise _not_understood(session, command, forms, words)
    return _SWITCHES[rest[0]] if rest else None


def _not_understood(session: CommandSession, command: str, forms: str, words: Sequence[str]) -> UsageError:
    return UsageError(f"'{' '.join(words)}' is not understood here. Say: {session.prefix}{command} {forms}")
