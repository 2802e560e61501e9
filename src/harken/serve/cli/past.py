"""`harken rag`: how past conversations come back, tried out, set, and looked back at."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from harken.engine import Harken
from harken.retrieve.conversations import PastConversation, PastExchange, PastRecall
from harken.serve.cli.session import Session, counted, json_option, print_json, with_session
from harken.storage.past import Retrieval

_SECTION, _SEED_PREFIX = "rag.", "rag_"
_EXCERPT = 200
_LISTED = 20


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def rag(context: click.Context, as_json: bool) -> None:
    """Past conversations that come back by themselves: show and change how."""
    if context.invoked_subcommand is None:
        _show(context.obj, as_json)


@rag.command()
@with_session
def on(session: Session) -> None:
    """Let past conversations come back."""
    _switch(session, True)


@rag.command()
@with_session
def off(session: Session) -> None:
    """Keep past conversations out of every context."""
    _switch(session, False)


@rag.command()
@json_option
@with_session
def config(session: Session, as_json: bool) -> None:
    """Show the limits, and where each comes from."""
    _show(session, as_json)


@rag.command("set")
@click.argument("key")
@click.argument("value")
@with_session
def set_value(session: Session, key: str, value: str) -> None:
    """Change a limit for every process: conversation_limit, exchange_limit_per_conversation, min_similarity."""
    with session.engine() as harken:
        kept = harken.run_time.set(_SECTION + key.removeprefix(_SECTION).removeprefix(_SEED_PREFIX), value)
    session.out.print(f"{kept.key} = {kept.value}", markup=False)


@rag.command()
@click.argument("query", nargs=-1, required=True)
@json_option
@with_session
def test(session: Session, query: tuple[str, ...], as_json: bool) -> None:
    """Show which past conversations and exchanges would come back for QUERY."""
    with session.engine() as harken:
        found = harken.chats.past(" ".join(query))
    if as_json:
        print_json(recall_facts(found))
        return
    if not found.conversations:
        session.out.print("Nothing comes back.")
    for talk in found.conversations:
        _print_conversation(session, talk)
    for note in found.notes:
        session.out.print(Text(note, "dim"))


@rag.command()
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="Only the newest so many.")
@json_option
@with_session
def log(session: Session, limit: int, as_json: bool) -> None:
    """Show how past conversations were looked for lately: how long it took, and how much came back."""
    with session.engine() as harken:
        found = harken.chats.past_log(limit)
    durations = sorted(each.duration_microseconds / 1000 for each in found)
    p50, p95 = _percentile(durations, 0.5), _percentile(durations, 0.95)
    if as_json:
        print_json({"p50_ms": p50, "p95_ms": p95, "retrievals": [_log_facts(each) for each in found]})
        return
    if not found:
        session.out.print("Nothing was looked for yet.")
        return
    session.out.print(f"{counted(len(found), 'retrieval')}: p50 {p50:.1f} ms, p95 {p95:.1f} ms")
    table = Table("at", "query", "conversations", "exchanges", "best", "ms", "error", box=None, pad_edge=False)
    for each in found[:_LISTED]:
        best = max((s for s in (each.best_conversation, each.best_exchange) if s is not None), default=None)
        table.add_row(
            f"{each.at:%Y-%m-%d %H:%M:%S}",
            each.query_hash,
            str(each.conversations),
            str(each.exchanges),
            "" if best is None else f"{best:.2f}",
            f"{each.duration_microseconds / 1000:.1f}",
            each.error_class or "",
        )
    session.out.print(table)


def recall_facts(found: PastRecall) -> dict[str, Any]:
    """What came back as scripts get it."""
    return {
        "query": found.query,
        "conversations": [_conversation_facts(each) for each in found.conversations],
        "notes": list(found.notes),
    }


def _conversation_facts(talk: PastConversation) -> dict[str, Any]:
    return {
        "id": talk.uid,
        "title": talk.title,
        "summary": talk.summary,
        "at": talk.at.isoformat(),
        "exchange_count": talk.exchange_count,
        "similarity": talk.similarity,
        "score": talk.score,
        "exchanges": [_exchange_facts(each) for each in talk.exchanges],
    }


def _exchange_facts(exchange: PastExchange) -> dict[str, Any]:
    return {
        "id": exchange.uid,
        "at": exchange.at.isoformat(),
        "similarity": exchange.similarity,
        "score": exchange.score,
        "user": exchange.user,
        "assistant": exchange.assistant,
    }


def _print_conversation(session: Session, talk: PastConversation) -> None:
    facts = [f"ID: {talk.uid}", f"Date: {talk.at:%Y-%m-%d}", *_similarity(talk.similarity)]
    session.out.print(Text(f'Conversation: "{talk.title or "untitled"}" ({", ".join(facts)})', "bold"))
    if talk.summary:
        session.out.print(Text(f"  Summary: {talk.summary}"))
    session.out.print(Text(f"  Exchanges: {talk.exchange_count}"))
    for exchange in talk.exchanges:
        session.out.print(Text(f"  Exchange ID: {', '.join([exchange.uid, *_similarity(exchange.similarity)])}"))
        for speaker, text in (("User", exchange.user), ("Assistant", exchange.assistant)):
            words = " ".join(text.split())
            if words:
                shown = words if len(words) <= _EXCERPT else words[: _EXCERPT - 1] + "…"
                session.out.print(Text(f"  - {speaker}: {shown}"))


def _similarity(value: float | None) -> list[str]:
    return [] if value is None else [f"Similarity: {value:.2f}"]


def _switch(session: Session, enabled: bool) -> None:
    with session.engine() as harken:
        harken.run_time.set("rag.enabled", enabled)
    session.out.print(f"Past conversations are {'on' if enabled else 'off'}.")


def _show(session: Session, as_json: bool) -> None:
    with session.engine() as harken:
        values = _values(harken)
    if as_json:
        print_json([{"key": key, "value": value, "origin": origin} for key, value, origin in values])
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for key, value, origin in values:
        table.add_row(key, "the model's own" if value is None else str(value), origin)
    session.out.print(table)


def _values(harken: Harken) -> list[tuple[str, Any, str]]:
    return [(each.key, each.value, each.origin) for each in harken.loaded.values() if each.key.startswith(_SECTION)]


def _log_facts(each: Retrieval) -> dict[str, Any]:
    return {
        "query_hash": each.query_hash,
        "conversations": each.conversations,
        "exchanges": each.exchanges,
        "best_conversation": each.best_conversation,
        "best_exchange": each.best_exchange,
        "duration_ms": each.duration_microseconds / 1000,
        "error_class": each.error_class,
        "at": each.at.isoformat(),
    }


def _percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest rank; 0 of nothing."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0.0
