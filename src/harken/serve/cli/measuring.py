"""`harken bench`: how well search and automatic recall do on the owner's own history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from harken.serve.cli.session import CommandSession, with_json
from harken.serve.process import EXIT_INTERRUPTED
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.bench.bench import MineReport
    from harken.engine import Harken

_SEARCH = {"recall@1": "recall@1", "recall@5": "recall@5", "recall@10": "recall@10", "mrr": "MRR"}
_RECALL = {"evidence": "evidence", "wrong": "injected wrongly"}
_WIDTH = 22
# Few are longer.
_QUESTION_TOKENS = 40

bench = click.Group("bench")


@bench.command()
@click.option("--limit", default=200, show_default=True, help="At most so many questions.")
@click.option("--seed", default=0, help="Another number makes other questions.")
@click.option("--yes", "is_agreed", is_flag=True, help="Do not ask, where an embedding endpoint would be called.")
@with_json
def mine(session: CommandSession, limit: int, seed: int, is_agreed: bool, as_json: bool) -> None:
    """Make questions of your own history, ask them, and say how often the answer is found.

    What you asked again or quoted, what was answered once, what was said or saved: which message answers is known, and
    nothing said after the question may. Prompts that nothing answers tell what is injected wrongly. Other settings are
    tried beside yours; nothing is changed or written, and no language model is called. Ctrl-C prints what is measured.
    """
    from harken.bench.bench import MineReport

    report, is_stopped = MineReport(), False
    with session.engine() as harken:
        if harken.settings.embedder == "openai-compatible":
            _agree(session, harken, limit, is_agreed)
        try:
            with session.progress("Asking", "questions") as show:
                harken.bench.mine(limit, seed, progress=show, report=report)
        except KeyboardInterrupt:
            if not report.measured:
                raise
            is_stopped = True
            session.note(f"Stopped after {len(report.measured):,} of {report.planned:,}; what was measured so far:")
    session.tell(as_json, report.view(), *_lines(report))
    if is_stopped:
        raise click.exceptions.Exit(EXIT_INTERRUPTED)


def _agree(session: CommandSession, harken: Harken, limit: int, is_agreed: bool) -> None:
    """Say what the questions cost at an embedding endpoint, and ask."""
    plan = harken.maintenance.plan_embedding(())
    tokens = limit * _QUESTION_TOKENS
    price = "of no known price" if plan.price_usd is None else "for nothing"
    if plan.price_usd:
        price = f"for about ${plan.price_usd * tokens / plan.tokens:.4f}"
    session.note(f"Up to {limit:,} questions are sent to the endpoint of {plan.model}: {tokens:,} tokens, {price}.")
    if not is_agreed:
        session.confirm("Nothing was sent", at_terminal=True)


def _lines(report: MineReport) -> Iterator[str]:
    kinds = Counter(each.question.kind for each in report.measured if each.question.gold)
    asked = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    yield f"{counted(kinds.total(), 'question')} ({asked}), and {report.count(False)} prompts that nothing answers."
    yield f"\n{'Search':<{_WIDTH}}" + f"{'questions':>10}" + "".join(f"{name:>20}" for name in _SEARCH.values())
    for row in report.search_figures():
        if row["kind"] == "all" or row["fusion"] == report.fusion:
            name = f"{row['kind']}, {row['fusion']}" if row["kind"] == "all" else row["kind"]
            yield f"{name:<{_WIDTH}}{row['questions']:>10}" + "".join(_figure(row, key) for key in _SEARCH)
    figures = report.recall_figures()
    if figures:
        heads = "".join(f"{name:>20}" for name in (*_RECALL.values(), "tokens"))
        yield f"\n{'Recall':<{_WIDTH}}{heads}"
    for row in figures:
        figure = "".join(_figure(row, key) for key in _RECALL)
        yield f"{row['trial']:<{_WIDTH}}{figure}{row['tokens']:>20}"
    for row in figures[:1] if report.kinds(False) else ():
        each = ", ".join(f"{key.removeprefix('wrong: ')} {value}" for key, value in row.items() if "wrong: " in key)
        yield f"Injected wrongly now: {each}."
    yield ""
    suggested = report.suggestions()
    for command, why in suggested:
        yield f"{command}   # {why}"
    if not suggested:
        yield "No other setting does better beyond doubt."


def _figure(row: Mapping[str, Any], key: str) -> str:
    low, high = row[f"{key} interval"]
    return f"{f'{row[key]:.3f} [{low:.2f}, {high:.2f}]':>20}"
