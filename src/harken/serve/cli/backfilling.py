"""`harken summarizer backfill`: older talk summarized by the model; what it costs is said first, and wants a yes."""

from __future__ import annotations

import sys
from decimal import Decimal
from math import ceil
from typing import Any

from harken.engine import Harken
from harken.errors import HarkenError
from harken.jobs.backfill import BackfillPlan
from harken.serve.cli.rebuilding import ask
from harken.serve.cli.session import CommandSession, counted, print_json
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE
from harken.text.dates import parse_since


def backfill(session: CommandSession, project: str | None, since: str | None, is_agreed: bool, as_json: bool) -> None:
    """Say what it takes to have the model summarize older talk, and do it once somebody has agreed.

    Raises:
        UsageError: there is no model, or the date is none.
        NotFoundError: there is no such project.
        HarkenError: nobody agreed; or the day's limit, or an endpoint that fails, ended it early.
    """
    with session.engine() as harken:
        backlog = harken.background.backfill.backlog(
            project, parse_since(since, harken.recorder.now()) if since else None
        )
        with session.progress("Counting", "items") as show:
            plan = harken.background.backfill.plan(backlog, show)
        if not plan.calls:
            _done(session, plan, {EXCHANGE: 0, CONVERSATION: 0}, as_json)
            return
        if not is_agreed and not sys.stdin.isatty():
            _refuse(plan, as_json)
        _tell(session, harken, plan)
        if not is_agreed:
            ask()
        with session.progress("Summarizing", "items") as show:
            total = sum(kind.items for kind in plan.kinds.values())
            made = harken.background.backfill.run(backlog, plan.price_usd, lambda done: show(done, total))
        halted = harken.background.backfill.halted
    _done(session, plan, made, as_json)
    if halted:
        raise HarkenError(f"Stopped, and the next backfill goes on from here. {halted}")


def usd(amount: Decimal | None) -> str:
    """`$1.25`; small amounts to the hundredth of a cent."""
    if amount is None:
        return "an unknown price"
    return f"${amount:,.2f}" if amount >= 1 or not amount else f"${amount:.4f}"


def _tell(session: CommandSession, harken: Harken, plan: BackfillPlan) -> None:
    into, out = plan.tokens
    session.note(f"{plan.model} would be sent what was said before it was set, or imported, to summarize it:")
    for kind, each in plan.kinds.items():
        price = f"about {usd(each.price_usd)}" if each.price_usd is not None else usd(None)
        session.note(f"  - {counted(each.items, kind)}, {counted(each.calls, 'call')}: {price}")
    whole = f"About {into:,} tokens in and {out:,} out, {counted(plan.calls, 'call')} in all: "
    if plan.price_usd is None:
        session.note(f"{whole}no price of {plan.model} is known.")
        return
    session.note(f"{whole}about {usd(plan.price_usd)}; at most {usd(plan.most_usd)} if it thinks before it writes.")
    limit = harken.settings.llm.max_usd_per_day
    if limit is not None and plan.price_usd > limit:
        days = f", about {counted(ceil(plan.price_usd / limit), 'day')} of backfills" if limit else ""
        session.note(
            f"It stops at {usd(limit)} a day{days}. Raise it: harken config set llm.max_usd_per_day "
            f"{ceil(plan.price_usd * 2)}"
        )


def _refuse(plan: BackfillPlan, as_json: bool) -> None:
    """Nobody is there to ask."""
    if as_json:
        print_json({**_facts(plan), "summarized": None})
    items = " and ".join(counted(each.items, kind) for kind, each in plan.kinds.items())
    sent = f"{counted(plan.calls, 'call')}, about {plan.tokens[0]:,} tokens in and {plan.tokens[1]:,} out"
    raise HarkenError(
        f"{items} would take {plan.model} {sent}, and cost about {usd(plan.price_usd)}. Nothing was sent, for nobody "
        "can answer here: to do it, add --yes."
    )


def _done(session: CommandSession, plan: BackfillPlan, made: dict[str, int], as_json: bool) -> None:
    if as_json:
        print_json({**_facts(plan), "summarized": made})
    elif not plan.calls:
        session.out.print("Nothing older is left to summarize.")
    else:
        said = f"{counted(made[EXCHANGE], 'exchange')} and {counted(made[CONVERSATION], 'conversation')}"
        session.out.print(f"{plan.model} summarized {said}.", markup=False)


def _facts(plan: BackfillPlan) -> dict[str, Any]:
    into, out = plan.tokens
    return {
        "model": plan.model,
        "calls": plan.calls,
        "input_tokens": into,
        "output_tokens": out,
        "price_usd": _number(plan.price_usd),
        "most_usd": _number(plan.most_usd),
        "kinds": {
            kind: {
                "items": each.items,
                "calls": each.calls,
                "input_tokens": each.input_tokens,
                "output_tokens": each.output_tokens,
                "price_usd": _number(each.price_usd),
            }
            for kind, each in plan.kinds.items()
        },
    }


def _number(price: Decimal | None) -> float | None:
    return None if price is None else float(price)
