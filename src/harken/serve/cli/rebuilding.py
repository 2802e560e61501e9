"""`harken embeddings rebuild`: what it does and costs is said first, and wants a typed yes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from harken.engine import Harken
from harken.engine.maintenance import EmbeddingPlan
from harken.errors import HarkenError, UsageError
from harken.jobs.job import WorkerState
from harken.jobs.workers import EMBEDDINGS
from harken.serve.cli.reporting import source_name
from harken.serve.cli.session import CommandSession, counted, print_json
from harken.storage.enrichment.jobs import EMBED

_AGREED = "yes"


def rebuild(session: CommandSession, sources: Sequence[str], is_agreed: bool, as_json: bool) -> None:
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
        plan = harken.upkeep.plan_embedding(sources)
        _tell(session, plan, is_whole=not sources)
        if not is_agreed:
            if not sys.stdin.isatty():
                raise UsageError("Nothing was changed, for nobody can answer here. To do it all the same, add --yes.")
            ask()
        waiting = harken.upkeep.embed_again(sources=sources)
        (report,) = harken.background.status(EMBEDDINGS)
        done = None
        if report.enabled and report.state is WorkerState.STOPPED:
            with session.progress("Embedding", "texts") as show:
                done = harken.embed(show, patient=True)
        given_up = _given_up(harken)
    if as_json:
        facts = {"deleted": plan.deleted, "texts": plan.texts, "tokens": plan.tokens, "model": plan.model}
        price = None if plan.price_usd is None else float(plan.price_usd)
        print_json({**facts, "price_usd": price, "waiting": waiting, "embedded": done})
    elif done is not None:
        session.out.print(f"Embeddings recreated: {done:,} of {waiting:,}.")
    elif report.enabled:
        session.out.print(f"Embeddings cleared. The pipeline recreates {counted(waiting, 'text')}.")
        session.out.print(f"How far it is: {session.prefix}embeddings", markup=False)
    else:
        session.out.print(f"Embeddings cleared. {counted(waiting, 'text')} wait, for the pipeline is OFF.")
        session.out.print(f"Switch it on: {session.prefix}embeddings on", markup=False)
    if done is not None and given_up:
        raise HarkenError(f"{counted(given_up, 'text')} given up after repeated failures. Again: harken worker retry")


def _given_up(harken: Harken) -> int:
    return sum(failure.kind == EMBED for failure in harken.upkeep.failures(limit=10_000))


def _tell(session: CommandSession, plan: EmbeddingPlan, is_whole: bool) -> None:
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


def ask() -> None:
    """Want a typed yes, of somebody at a terminal.

    Raises:
        HarkenError: the answer was another.
    """
    answer = click.prompt(f"Type '{_AGREED}' to confirm", default="", show_default=False, err=True)
    if answer.strip().lower() != _AGREED:
        raise HarkenError("Nothing was changed.")
