"""`harken worker`, `summarizer` and `embeddings`: background work run, watched, switched and done again."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from decimal import Decimal
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import click

from harken.errors import HarkenError, MissingExtraError, UsageError
from harken.serve.cli.reporting import pipeline_lines, source_name, summaries_words, summarizer_lines, title_line
from harken.serve.cli.session import CommandAnswer, CommandSession, on_store, print_json, with_json
from harken.serve.operations.operation import view_of
from harken.serve.operations.status import CONVERSATION, EMBEDDINGS, EXCHANGE, SEGMENT, TOOLS, report_line, troubles_of
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.engine.maintenance import EmbeddingPlan
    from harken.jobs.backfill import BackfillPlan


worker = click.Group("worker")


@worker.command()
@click.option("--until-idle", is_flag=True, help="End when nothing is left to do.")
@click.option("--team", "is_team", is_flag=True, help="In every space of the team that the settings name.")
@click.option("--unwalled", is_flag=True, help="With --team: also by a login that row-level security does not hold.")
@with_json
def run(session: CommandSession, until_idle: bool, is_team: bool, unwalled: bool, as_json: bool) -> None:
    """Summarize what ended, rests or has left a window, and embed what waits for it, the newest first.

    Tells webhooks what has happened, and in a team forgets what its spaces keep no longer.
    """
    if is_team:
        from harken.serve.cli.hosting import work_for_team

        if until_idle or as_json:
            raise UsageError("--team goes without --until-idle and --json: it works until it is told to end.")
        work_for_team(session, unwalled)
        return
    if session.opened is not None and not until_idle:
        raise UsageError("A chat runs the workers already. Say: /worker run --until-idle, or /worker status")
    if as_json and not until_idle:
        raise UsageError("Only what ends has facts to print. Give --json together with --until-idle.")
    with session.engine() as harken:
        if until_idle:
            _until_idle(session, harken, as_json)
            return
        stopping = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: stopping.set())
        if harken.start_worker() is None:
            session.note("The settings name no embedding model: only summaries are made.")
        session.note("Working; stop with Ctrl-C.")
        while not stopping.wait(1.0):
            with suppress(HarkenError):
                harken.run_time.refresh()


def _until_idle(session: CommandSession, harken: Harken, as_json: bool) -> None:
    if harken.background.status(EMBEDDINGS)[0].enabled:
        # A model that cannot be opened is said before anything is done, not after minutes of summaries.
        harken.spaces.filled()
    made = harken.background.summarize()
    lines = [f"Summarized {counted(made[SEGMENT], 'message')} that left a window."] if made[SEGMENT] else []
    if made[EXCHANGE] or made[CONVERSATION]:
        lines.append(f"Summarized {_both(made)}.")
    for line in [] if as_json else lines:
        session.say(line)
    done = 0
    if harken.background.status(EMBEDDINGS)[0].enabled:
        with session.progress("Embedding", "texts") as show:
            done = harken.embed(show, patient=True)
    session.tell(as_json, {"summarized": made, "embedded": done}, f"Embedded {counted(done, 'text')}.")
    # Without what finds clusters there are none, and nobody has asked for them here.
    with suppress(MissingExtraError):
        if harken.topics.is_due():
            harken.topics.refresh()
    if told := harken.webhooks.deliver():
        session.note(f"Told webhooks of {counted(told, 'event')}.")
    for report in harken.background.status():
        if report.blocked_reason:
            session.note(f"{report.name}: {report.blocked_reason}")
    failures = harken.maintenance.failures()
    if failures:
        failed = f"{counted(harken.maintenance.status().counts.failed, 'item')} given up after repeated failures"
        raise HarkenError(f"{failed}, lastly {failures[0].error_class}. Again: harken worker retry")


def _both(made: Mapping[str, int]) -> str:
    return f"{counted(made[EXCHANGE], 'exchange')} and {counted(made[CONVERSATION], 'conversation')}"


@worker.command("status")
@on_store
def worker_status(harken: Harken) -> CommandAnswer:
    """Show what waits, what is being worked on, and what was given up."""
    found, failures, reports = harken.maintenance.status(), harken.maintenance.failures(), harken.background.status()
    facts = {
        "queue": found.queue,
        "embedded": found.counts.embedded,
        "failed": found.counts.failed,
        "stale_leases": found.stale_leases,
        "workers": view_of(reports),
        "failures": view_of(failures),
    }
    lines = [line for report in reports for line in (report_line(report), *(f"  {why}" for why in troubles_of(report)))]
    for failure in failures:
        what = "entry" if failure.is_embedding else failure.kind
        lines.append(f"  {what} {failure.item_id}: {failure.error_class} after {failure.attempts} attempts")
    space = getattr(harken.store, "space", None)
    of = f"space {space.name}" if space else f"'{harken.settings.tenant}'"
    note = f"Of {of} alone. Of another space of a team: harken --space NAME worker status; names: harken space list"
    return CommandAnswer(facts, lines, [note] if harken.settings.store else [])


@worker.command()
@partial(on_store, scopes=["admin"])
def retry(harken: Harken) -> CommandAnswer:
    """Try again what was given up."""
    count = harken.maintenance.retry_failed()
    line = f"{counted(count, 'item')} wait again. Work on them: harken worker run --until-idle"
    return CommandAnswer({"waiting": count}, [line])


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
@with_json
def summarizer(
    session: CommandSession, words: tuple[str, ...], project: str | None, since: str | None, yes: bool, as_json: bool
) -> None:
    """Show how summaries stand, or switch them on or off; both kinds unless one is named.

    `on` without a kind switches the embedding of summaries on as well: without it they come back by their words alone.

    A language model summarizes what is said after it was set; what is older, or imported, is summarized by extraction,
    which costs nothing. `backfill` says what it costs to have the model do that too, and does it once you agree.
    """
    if words == ("backfill",):
        _backfill(session, project, since, yes, as_json)
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
        has_model = harken.settings.embedder != "none"
        behind = summaries_words(harken, session.prefix) if harken.chat.model_name else ""
    shown = [reports[name] for name in named or _SUMMARIZERS]
    lines = [line for report in shown for line in (*summarizer_lines(session, report), *([] if named else [""]))]
    if not named:
        title = title_line(reports[EMBEDDINGS], has_model)
        lines.append(f"{title} (see {session.prefix}embeddings for details)")
    session.tell(as_json, view_of(shown), *lines, *([behind] if behind else []))


@click.command()
@click.argument("words", nargs=-1, metavar=_EMBEDDINGS_FORMS)
@click.option("--yes", is_flag=True, help="Do not ask before a rebuild.")
@with_json
def embeddings(session: CommandSession, words: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Show how embedding stands, switch it on or off, or have everything, or all of one kind, embedded again."""
    if words[:1] == ("rebuild",) and words[1:] in _REBUILT:
        _rebuild(session, _REBUILT[words[1:]], yes, as_json)
        return
    switch = _switch_of(session, "embeddings", _EMBEDDINGS_FORMS, words, words)
    with session.engine() as harken:
        if switch is not None:
            _switch(session, harken, (EMBEDDINGS,), switch)
        (report,) = harken.background.status(EMBEDDINGS)
        vectors = harken.background.vectors()
        embedder = harken.settings.embedder
        model = "" if embedder == "none" else harken.maintenance.status().space or embedder
    counts = {source: {"embedded": v.embedded, "waiting": v.waiting} for source, v in vectors.items()}
    lines = pipeline_lines(session, report, vectors, model)
    session.tell(as_json, [{**report.view(), "vectors": counts}], *lines)


def _switch(session: CommandSession, harken: Harken, names: Sequence[str], enabled: bool) -> None:
    for name in names:
        harken.background.switch(name, enabled, harken.run_time.store)
    if enabled and session.opened is not None:
        # Whoever switches work on in a chat means to have it done there.
        harken.background.start(names)


def _switch_of(
    session: CommandSession, command: str, forms: str, words: Sequence[str], rest: Sequence[str]
) -> bool | None:
    """True for `on`, False for `off`; None where nothing is to be switched."""
    if len(rest) > 1 or any(word not in _SWITCHES for word in rest):
        said = f"{session.prefix}{command} {forms}"
        raise UsageError(f"'{' '.join(words)}' is not understood here. Say: {said}")
    return _SWITCHES[rest[0]] if rest else None


def _rebuild(session: CommandSession, sources: Sequence[str], is_agreed: bool, as_json: bool) -> None:
    """Delete vectors of these sources, or all, and have them made again: by this process's worker, else right now."""
    with session.engine(["admin"]) as harken:
        plan = harken.maintenance.plan_embedding(sources)
        _tell_plan(session, plan, is_whole=not sources)
        if not is_agreed:
            session.confirm("Nothing was changed", at_terminal=True)
        waiting = harken.maintenance.embed_again(sources=sources)
        (report,) = harken.background.status(EMBEDDINGS)
        done = None
        if report.enabled and not report.is_run_here:
            with session.progress("Embedding", "texts") as show:
                done = harken.embed(show, patient=True)
        given_up = sum(failure.is_embedding for failure in harken.maintenance.failures(limit=10_000))
    if done is not None:
        lines = [f"Embeddings recreated: {done:,} of {waiting:,}."]
    elif report.enabled:
        lines = [f"Embeddings cleared. The pipeline recreates {counted(waiting, 'text')}."]
        lines.append(f"How far it is: {session.prefix}embeddings")
    else:
        lines = [f"Embeddings cleared. {counted(waiting, 'text')} wait, for the pipeline is OFF."]
        lines.append(f"Switch it on: {session.prefix}embeddings on")
    session.tell(as_json, {**asdict(plan), "waiting": waiting, "embedded": done}, *lines)
    if done is not None and given_up:
        raise HarkenError(f"{counted(given_up, 'text')} given up after repeated failures. Again: harken worker retry")


def _tell_plan(session: CommandSession, plan: EmbeddingPlan, is_whole: bool) -> None:
    kinds = "ALL embeddings" if is_whole else "these embeddings"
    tokens = f"about {counted(plan.tokens, 'token')}"
    cost = f"Cost approximately ${plan.price_usd or 0:.4f} ({tokens} to the endpoint of {plan.model})"
    if plan.price_usd is None:
        cost = f"Send {tokens} to the endpoint of {plan.model}, whose price is not known here"
    elif not plan.price_usd:
        cost = f"Cost nothing: {plan.model} runs on this machine ({tokens})"
    for line in (
        f"⚠ WARNING: This will delete and recreate {kinds}. Until then texts are found by their words.",
        "This operation will:",
        f"  - Delete {counted(plan.deleted, 'existing embedding')}",
        *(f"  - Re-embed {count:,} {source_name(source).lower()}" for source, count in sorted(plan.texts.items())),
        f"  - {cost}",
    ):
        session.note(line)


def _backfill(session: CommandSession, project: str | None, since: str | None, is_agreed: bool, as_json: bool) -> None:
    """Say what it takes to have the model summarize older talk, and do it once somebody has agreed."""
    from harken.text.dates import parse_since

    made, halted = {EXCHANGE: 0, CONVERSATION: 0}, ""
    with session.engine(["admin"]) as harken:
        backfill = harken.background.backfill
        backlog = backfill.backlog(project, parse_since(since, harken.recorder.now()) if since else None)
        with session.progress("Counting", "items") as show:
            plan = backfill.plan(backlog, show)
        if plan.calls:
            if not is_agreed and not sys.stdin.isatty():
                if as_json:
                    print_json({**_backfill_view(plan), "summarized": None})
                items = " and ".join(counted(each.items, kind) for kind, each in plan.kinds.items())
                sent = f"{counted(plan.calls, 'call')}, about {plan.tokens[0]:,} tokens in and {plan.tokens[1]:,} out"
                raise HarkenError(
                    f"{items} would take {plan.model} {sent}, and cost about {_usd(plan.price_usd)}. Nothing was sent, "
                    "for nobody can answer here: to do it, add --yes."
                )
            _tell_price(session, harken, plan)
            if not is_agreed and not session.agrees("to confirm"):
                raise HarkenError("Nothing was changed.")
            with session.progress("Summarizing", "items") as show:
                total = sum(kind.items for kind in plan.kinds.values())
                made = backfill.run(backlog, plan.price_usd, lambda done: show(done, total))
            halted = backfill.blocked_reason
    line = f"{plan.model} summarized {_both(made)}." if plan.calls else "Nothing older is left to summarize."
    line += f" {counted(backfill.useless, 'answer')} of it had no use: there extracts stay." if backfill.useless else ""
    session.tell(as_json, {**_backfill_view(plan), "summarized": made}, line)
    if halted:
        raise HarkenError(f"Stopped, and the next backfill goes on from here. {halted}")


def _usd(amount: Decimal | None) -> str:
    """`$1.25`; small amounts to the hundredth of a cent."""
    if amount is None:
        return "an unknown price"
    return f"${amount:,.2f}" if amount >= 1 or not amount else f"${amount:.4f}"


def _tell_price(session: CommandSession, harken: Harken, plan: BackfillPlan) -> None:
    into, out = plan.tokens
    session.note(f"{plan.model} would be sent what was said before it was set, or imported, to summarize it:")
    for kind, each in plan.kinds.items():
        price = f"about {_usd(each.price_usd)}" if each.price_usd is not None else _usd(None)
        session.note(f"  - {counted(each.items, kind)}, {counted(each.calls, 'call')}: {price}")
    whole = f"About {into:,} tokens in and {out:,} out, {counted(plan.calls, 'call')} in all: "
    if plan.price_usd is None:
        session.note(f"{whole}no price of {plan.model} is known.")
        return
    session.note(f"{whole}about {_usd(plan.price_usd)}; at most {_usd(plan.most_usd)} if it thinks before it writes.")
    limit = harken.settings.llm.max_usd_per_day
    if limit is not None and plan.price_usd > limit:
        days = f", about {counted(ceil(plan.price_usd / limit), 'day')} of backfills" if limit else ""
        session.note(
            f"It stops at {_usd(limit)} a day{days}. Raise it: harken config set llm.max_usd_per_day "
            f"{ceil(plan.price_usd * 2)}"
        )


def _backfill_view(plan: BackfillPlan) -> dict[str, Any]:
    into, out = plan.tokens
    kinds = {kind: asdict(each) for kind, each in plan.kinds.items()}
    for view in kinds.values():
        del view["most_usd"]
    prices = {"price_usd": plan.price_usd, "most_usd": plan.most_usd}
    counts = {"calls": plan.calls, "input_tokens": into, "output_tokens": out}
    return {"model": plan.model, **counts, **prices, "kinds": kinds}
