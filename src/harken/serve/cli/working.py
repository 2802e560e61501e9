"""`harken worker`, `summarizer` and `embeddings`: background work run, watched, switched and done again."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, Any

import click

from harken.errors import HarkenError, UsageError
from harken.serve.cli.reporting import (
    CONVERSATION,
    EMBEDDINGS,
    EXCHANGE,
    SEGMENT,
    TOOLS,
    print_pipeline,
    print_reports,
    print_summarizer,
    source_name,
    summaries_words,
    title_line,
)
from harken.serve.cli.session import CommandSession, print_json, with_json
from harken.text.shown import counted

if TYPE_CHECKING:
    from types import FrameType

    from harken.engine import Harken
    from harken.engine.maintenance import EmbeddingPlan
    from harken.jobs.backfill import BackfillPlan


@click.group()
def worker() -> None:
    """Run and watch the background work."""


@worker.command()
@click.option("--until-idle", is_flag=True, help="End when nothing is left to do.")
@with_json
def run(session: CommandSession, until_idle: bool, as_json: bool) -> None:
    """Summarize what ended, rests or has left a window, and embed what waits for it, the newest first."""
    if as_json and not until_idle:
        raise UsageError("Only what ends has facts to print. Give --json together with --until-idle.")
    with session.engine() as harken:
        if until_idle:
            _until_idle(session, harken, as_json)
        else:
            _serve(session, harken)


def _until_idle(session: CommandSession, harken: Harken, as_json: bool) -> None:
    if harken.background.status(EMBEDDINGS)[0].enabled:
        # A model that cannot be opened is said before anything is done, not after minutes of summaries.
        harken.spaces.filled()
    made = harken.background.summarize()
    if not as_json:
        _tell_made(session, made)
    done = 0
    if harken.background.status(EMBEDDINGS)[0].enabled:
        with session.progress("Embedding", "texts") as show:
            done = harken.embed(show, patient=True)
    session.tell(as_json, {"summarized": made, "embedded": done}, f"Embedded {counted(done, 'text')}.")
    for report in harken.background.status():
        if report.blocked_reason:
            session.note(f"{report.name}: {report.blocked_reason}")
    failures = harken.maintenance.failures()
    if failures:
        failed = counted(harken.maintenance.status().counts.failed, "item")
        raise HarkenError(
            f"{failed} given up after repeated failures, lastly {failures[0].error_class}. Again: harken worker retry"
        )


def _tell_made(session: CommandSession, made: Mapping[str, int]) -> None:
    if taken_in := made[SEGMENT]:
        session.say(f"Summarized {counted(taken_in, 'message')} that left a window.")
    if made[EXCHANGE] or made[CONVERSATION]:
        summarized = f"{counted(made[EXCHANGE], 'exchange')} and {counted(made[CONVERSATION], 'conversation')}"
        session.say(f"Summarized {summarized}.")


def _serve(session: CommandSession, harken: Harken) -> None:
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    if harken.start_worker() is None:
        session.note("The settings name no embedding model: only summaries are made.")
    session.note("Working; stop with Ctrl-C.")
    while not stopping.wait(1.0):
        pass


@worker.command("status")
@with_json
def worker_status(session: CommandSession, as_json: bool) -> None:
    """Show what waits, what is being worked on, and what was given up."""
    with session.engine() as harken:
        found = harken.maintenance.status()
        failures = harken.maintenance.failures()
        reports = harken.background.status()
    facts = {
        "queue": found.queue,
        "embedded": found.counts.embedded,
        "failed": found.counts.failed,
        "stale_leases": found.stale_leases,
        "workers": [report.view() for report in reports],
        "failures": [failure.view() for failure in failures],
    }
    if as_json:
        print_json(facts)
        return
    print_reports(session, reports)
    for failure in failures:
        what = "entry" if failure.is_embedding else failure.kind
        session.say(f"  {what} {failure.item_id}: {failure.error_class} after {failure.attempts} attempts")


@worker.command()
@with_json
def retry(session: CommandSession, as_json: bool) -> None:
    """Try again what was given up."""
    with session.engine() as harken:
        count = harken.maintenance.retry_failed()
    if as_json:
        print_json({"waiting": count})
        return
    session.say(f"{counted(count, 'item')} wait again. Work on them: harken worker run --until-idle")


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
        has_model = _has_model(harken)
        behind = summaries_words(harken, session.prefix) if harken.chat.model_name else ""
    shown = [reports[name] for name in named or _SUMMARIZERS]
    if as_json:
        print_json([report.view() for report in shown])
        return
    for report in shown:
        print_summarizer(session, report)
        if not named:
            session.say()
    if not named:
        details = f"(see {session.prefix}embeddings for details)"
        session.say(f"{title_line(reports[EMBEDDINGS], has_model)} {details}")
    if behind:
        session.say(behind)


@click.command()
@click.argument("words", nargs=-1, metavar=_EMBEDDINGS_FORMS)
@click.option("--yes", is_flag=True, help="Do not ask before a rebuild.")
@with_json
def embeddings(session: CommandSession, words: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Show how embedding stands, switch it on or off, or have everything, or all of one kind, embedded again."""
    if words[:1] == ("rebuild",):
        if words[1:] not in _REBUILT:
            raise _not_understood(session, "embeddings", _EMBEDDINGS_FORMS, words)
        _rebuild(session, _REBUILT[words[1:]], yes, as_json)
        return
    switch = _switch_of(session, "embeddings", _EMBEDDINGS_FORMS, words, words)
    with session.engine() as harken:
        if switch is not None:
            _switch(session, harken, (EMBEDDINGS,), switch)
        (report,) = harken.background.status(EMBEDDINGS)
        vectors = harken.background.vectors()
        space = harken.maintenance.status().space
        model = (space or harken.settings.embedder) if _has_model(harken) else ""
    if as_json:
        counts = {source: {"embedded": v.embedded, "waiting": v.waiting} for source, v in vectors.items()}
        print_json([{**report.view(), "vectors": counts}])
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


def _rebuild(session: CommandSession, sources: Sequence[str], is_agreed: bool, as_json: bool) -> None:
    """Delete vectors and have them made again: by this process's worker where it runs one, else right now.

    Args:
        session: whose store.
        sources: what the vectors are of; all where none is named.
        is_agreed: whether nobody has to be asked.
        as_json: print what was done as JSON.
    Raises:
        UsageError: there is no model to embed with, or nobody to ask.
        HarkenError: the answer was not yes; or texts were given up.
    """
    with session.engine() as harken:
        plan = harken.maintenance.plan_embedding(sources)
        _tell_plan(session, plan, is_whole=not sources)
        if not is_agreed:
            if not sys.stdin.isatty():
                raise UsageError("Nothing was changed, for nobody can answer here. To do it all the same, add --yes.")
            _confirm(session)
        waiting = harken.maintenance.embed_again(sources=sources)
        (report,) = harken.background.status(EMBEDDINGS)
        done = None
        if report.enabled and not report.is_run_here:
            with session.progress("Embedding", "texts") as show:
                done = harken.embed(show, patient=True)
        given_up = _given_up(harken)
    if as_json:
        facts = {"deleted": plan.deleted, "texts": plan.texts, "tokens": plan.tokens, "model": plan.model}
        price = None if plan.price_usd is None else float(plan.price_usd)
        print_json({**facts, "price_usd": price, "waiting": waiting, "embedded": done})
    elif done is not None:
        session.say(f"Embeddings recreated: {done:,} of {waiting:,}.")
    elif report.enabled:
        session.say(f"Embeddings cleared. The pipeline recreates {counted(waiting, 'text')}.")
        session.say(f"How far it is: {session.prefix}embeddings")
    else:
        session.say(f"Embeddings cleared. {counted(waiting, 'text')} wait, for the pipeline is OFF.")
        session.say(f"Switch it on: {session.prefix}embeddings on")
    if done is not None and given_up:
        raise HarkenError(f"{counted(given_up, 'text')} given up after repeated failures. Again: harken worker retry")


def _given_up(harken: Harken) -> int:
    return sum(failure.is_embedding for failure in harken.maintenance.failures(limit=10_000))


def _tell_plan(session: CommandSession, plan: EmbeddingPlan, is_whole: bool) -> None:
    kinds = "ALL embeddings" if is_whole else "these embeddings"
    session.note(f"⚠ WARNING: This will delete and recreate {kinds}. Until then texts are found by their words.")
    session.note("This operation will:")
    session.note(f"  - Delete {counted(plan.deleted, 'existing embedding')}")
    for source, count in sorted(plan.texts.items()):
        session.note(f"  - Re-embed {count:,} {source_name(source).lower()}")
    session.note(f"  - {_cost(plan)}")


def _cost(plan: EmbeddingPlan) -> str:
    tokens = f"about {counted(plan.tokens, 'token')}"
    if plan.price_usd is None:
        return f"Send {tokens} to the endpoint of {plan.model}, whose price is not known here"
    if not plan.price_usd:
        return f"Cost nothing: {plan.model} runs on this machine ({tokens})"
    return f"Cost approximately ${plan.price_usd:.4f} ({tokens} to the endpoint of {plan.model})"


def _confirm(session: CommandSession) -> None:
    if not session.agrees("to confirm"):
        raise HarkenError("Nothing was changed.")


def _backfill(session: CommandSession, project: str | None, since: str | None, is_agreed: bool, as_json: bool) -> None:
    """Say what it takes to have the model summarize older talk, and do it once somebody has agreed.

    Raises:
        UsageError: there is no model, or the date is none.
        NotFoundError: there is no such project.
        HarkenError: nobody agreed; or the day's limit, or an endpoint that fails, ended it early.
    """
    from harken.text.dates import parse_since

    with session.engine() as harken:
        backlog = harken.background.backfill.backlog(
            project, parse_since(since, harken.recorder.now()) if since else None
        )
        with session.progress("Counting", "items") as show:
            plan = harken.background.backfill.plan(backlog, show)
        if not plan.calls:
            _tell_backfilled(session, plan, {EXCHANGE: 0, CONVERSATION: 0}, as_json)
            return
        if not is_agreed and not sys.stdin.isatty():
            _refuse(plan, as_json)
        _tell_price(session, harken, plan)
        if not is_agreed:
            _confirm(session)
        with session.progress("Summarizing", "items") as show:
            total = sum(kind.items for kind in plan.kinds.values())
            made = harken.background.backfill.run(backlog, plan.price_usd, lambda done: show(done, total))
        halted = harken.background.backfill.blocked_reason
    _tell_backfilled(session, plan, made, as_json)
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


def _refuse(plan: BackfillPlan, as_json: bool) -> None:
    """Nobody is there to ask."""
    if as_json:
        print_json({**_backfill_view(plan), "summarized": None})
    items = " and ".join(counted(each.items, kind) for kind, each in plan.kinds.items())
    sent = f"{counted(plan.calls, 'call')}, about {plan.tokens[0]:,} tokens in and {plan.tokens[1]:,} out"
    raise HarkenError(
        f"{items} would take {plan.model} {sent}, and cost about {_usd(plan.price_usd)}. Nothing was sent, for nobody "
        "can answer here: to do it, add --yes."
    )


def _tell_backfilled(session: CommandSession, plan: BackfillPlan, made: dict[str, int], as_json: bool) -> None:
    if as_json:
        print_json({**_backfill_view(plan), "summarized": made})
    elif not plan.calls:
        session.say("Nothing older is left to summarize.")
    else:
        said = f"{counted(made[EXCHANGE], 'exchange')} and {counted(made[CONVERSATION], 'conversation')}"
        session.say(f"{plan.model} summarized {said}.")


def _backfill_view(plan: BackfillPlan) -> dict[str, Any]:
    into, out = plan.tokens
    return {
        "model": plan.model,
        "calls": plan.calls,
        "input_tokens": into,
        "output_tokens": out,
        "price_usd": _usd_number(plan.price_usd),
        "most_usd": _usd_number(plan.most_usd),
        "kinds": {
            kind: {
                "items": each.items,
                "calls": each.calls,
                "input_tokens": each.input_tokens,
                "output_tokens": each.output_tokens,
                "price_usd": _usd_number(each.price_usd),
            }
            for kind, each in plan.kinds.items()
        },
    }


def _usd_number(price: Decimal | None) -> float | None:
    return None if price is None else float(price)
