"""`harken rag`: how past conversations come back, tried out, set, and looked back at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harken.errors import UsageError
from harken.serve.cli.commands import command_of
from harken.serve.cli.reporting import by_kind
from harken.serve.cli.session import CommandSession, json_option, with_json
from harken.serve.operations.feedback import OPERATIONS as JUDGING
from harken.serve.operations.operation import view_of
from harken.text.shown import ago, counted

if TYPE_CHECKING:
    from harken.config.settings import SettingValue
    from harken.engine import Harken
    from harken.model.lookups import PastConversation
    from harken.serve.operations.operation import Piece

_SECTION, _SEED_PREFIX = "rag.", "rag_"
_TITLES = {
    "conversation_limit": "Conversation retrieval limit",
    "exchange_limit_per_conversation": "Exchange limit per conversation",
    "min_similarity": "Minimum similarity threshold",
}
_OF_OTHERS = {
    "prefer": "what was said in another comes back only if it is nearer than it would have to be there",
    "project": "what was said in another does not come back",
}
_MEANINGS = {
    "enabled": "Whether past conversations come back: {}.",
    "conversation_limit": "RAG will now retrieve up to {} related conversations per query.",
    "exchange_limit_per_conversation": "RAG will now show up to {} exchanges of each conversation.",
    "share_places": "Whether a better conversation may take places of a worse one: {}.",
    # In place of that of the limit while places are shared.
    "shared": "RAG will now show up to {} exchanges per conversation on average: one that answers better takes places "
    "of others. To hold each to its own: {}rag set rag_share_places false",
    "min_similarity": "RAG will now bring back only what has a similarity of at least {}.",
    "saved": "Whether what was saved or indexed comes back as well: {}.",
    "scope": "What comes back from projects beside the one at hand: {}.",
    "rules": "Whether rules and preferences that you have stated come back: {}.",
    "without_tags": "What has one of these tags does not come back by itself: {}.",
}
_LISTED = 20


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def rag(context: click.Context, as_json: bool) -> None:
    """Past conversations that come back by themselves: show and change how."""
    if context.invoked_subcommand is None:
        _show_state(context.obj, as_json)


@click.pass_obj
def _switch(session: CommandSession, enabled: bool) -> None:
    with session.engine() as harken:
        harken.run_time.set("rag.enabled", enabled)
    session.say(f"Past conversations are {'on' if enabled else 'off'}.")


rag.command("on", help="Let past conversations come back.")(partial(_switch, enabled=True))
rag.command("off", help="Keep past conversations out of every context.")(partial(_switch, enabled=False))


@rag.command()
@with_json
def config(session: CommandSession, as_json: bool) -> None:
    """Show the limits, and where each comes from."""
    with session.engine() as harken:
        values = _values(harken)
    lines = ["RAG Configuration:"]
    for value in values:
        origin = "" if value.origin == "default" else f"  ({value.origin})"
        lines.append(f"  {_seeds_key(value.key)}: {_shown(value)}{origin}")
    lines += ["", f"To update: {session.prefix}rag set <key> <value>"]
    lines.append(f"Example: {session.prefix}rag set rag_conversation_limit 5")
    session.tell(as_json, view_of(values), *lines)


@rag.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("key")
@click.argument("value")
@click.pass_obj
def set_value(session: CommandSession, key: str, value: str) -> None:
    """Change how past conversations come back, for every process.

    KEY is enabled, conversation_limit, exchange_limit_per_conversation, share_places, min_similarity, saved, scope,
    rules or without_tags.
    """
    from harken.config.sections import RagConfig

    name = key.removeprefix(_SECTION).removeprefix(_SEED_PREFIX)
    if name not in RagConfig.hints():
        known = ", ".join(_SEED_PREFIX + each for each in RagConfig.hints())
        said = f"{session.prefix}rag set KEY VALUE, KEY one of {known}"
        raise UsageError(f"There is no setting '{key}' here. Say: {said}")
    with session.engine() as harken:
        kept = harken.run_time.set(_SECTION + name, value)
        is_shared = name == "exchange_limit_per_conversation" and harken.settings.rag.share_places
    session.say(f"Updated: {_seeds_key(kept.key)} = {_shown(kept)}")
    session.say(_MEANINGS["shared" if is_shared else name].format(_shown(kept), session.prefix))


@rag.command()
@click.argument("query", nargs=-1, required=True)
@with_json
def test(session: CommandSession, query: Sequence[str], as_json: bool) -> None:
    """Show which past conversations and exchanges would come back for QUERY; in a chat, not from the chat itself."""
    from harken.record.project import identify_project

    with session.engine() as harken:
        found = harken.chats.past(" ".join(query), session.talk, Path.cwd())
        of_others = _OF_OTHERS.get(harken.settings.rag.scope)
    lines = [line for talk in found.conversations for line in _conversation_lines(talk, found.query)]
    notes = list(found.notes)
    if not found.conversations and of_others and session.talk is None and (project := identify_project(Path.cwd())):
        notes.append(f"Asked from the project {project.name}: {of_others} (rag.scope).")
    view = {**found.view(), "notes": notes}
    session.tell(as_json, view, *(lines or ["Nothing comes back."]), *((note, "dim") for note in notes))


@rag.command()
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="Only the newest so many.")
@with_json
def log(session: CommandSession, limit: int, as_json: bool) -> None:
    """Show how past conversations were looked for lately: how long it took, and how much came back."""
    with session.engine() as harken:
        found = harken.chats.past_log(limit)
    durations = sorted(each.duration_microseconds / 1000 for each in found)
    # The nearest ranks.
    p50, p95 = (durations[max(0, ceil(share * len(found)) - 1)] if found else 0.0 for share in (0.5, 0.95))
    if as_json or not found:
        view = {"p50_ms": p50, "p95_ms": p95, "retrievals": view_of(found)}
        session.tell(as_json, view, "Nothing was looked for yet.")
        return
    session.say(f"{counted(len(found), 'retrieval')}: p50 {p50:.1f} ms, p95 {p95:.1f} ms")
    from rich.table import Column, Table

    names = ("query", "conversations", "exchanges", "best", "ms", "error")
    table = Table(Column("at", no_wrap=True), *names, box=None, pad_edge=False)
    for each in found[:_LISTED]:
        best = max((s for s in (each.best_conversation, each.best_exchange) if s is not None), default=None)
        table.add_row(
            f"{each.at.astimezone():%Y-%m-%d %H:%M:%S}",
            each.query_hash,
            str(each.conversations),
            str(each.exchanges),
            "" if best is None else f"{best:.2f}",
            f"{each.duration_microseconds / 1000:.1f}",
            each.error_class or "",
        )
    session.out.print(table)


def _conversation_lines(talk: PastConversation, query: str) -> Iterator[Piece]:
    from harken.context.render import speakers

    facts = [f"ID: {talk.uid}", f"Date: {talk.at.astimezone():%Y-%m-%d}", *_similarity(talk.similarity)]
    facts += [f"Project: {talk.other_project}"] if talk.other_project else []
    facts += [talk.origin.label] if talk.origin else []
    yield f'Conversation: "{talk.title or "untitled"}" ({", ".join(facts)})', "bold"
    if talk.summary:
        yield f"  Summary: {talk.summary}"
    yield f"  Exchanges: {talk.exchange_count}"
    for exchange in talk.exchanges:
        trust = [exchange.trust.label] if exchange.trust.is_untrusted else []
        yield f"  Exchange ID: {', '.join([exchange.uid, *_similarity(exchange.similarity), *trust])}"
        yield from (f"  - {speaker}: {text}" for speaker, text in speakers(exchange, query))


def _similarity(value: float | None) -> list[str]:
    return [] if value is None else [f"Similarity: {value:.2f}"]


def _show_state(session: CommandSession, as_json: bool) -> None:
    with session.engine() as harken:
        values, vectors, rag = _values(harken), harken.background.vectors(), harken.settings.rag
        last = next(iter(harken.chats.past_log(1)), None)
    embedded = {source: found.embedded for source, found in vectors.items()}
    facts = {"enabled": rag.enabled, "embedded": embedded, "last_retrieval": last.view() if last else None}
    shown = {value.key: _shown(value) for value in values}
    lines = [f"RAG Status: {'ENABLED' if rag.enabled else 'DISABLED'}", "", "Embeddings:"]
    lines += [f"  - {name}: {count:,} embedded" for name, count in by_kind(vectors)]
    lines.append(f"  - Total vectors: {sum(embedded.values()):,}")
    lines += ["", "Configuration:"]
    lines += [f"  - {title}: {shown[_SECTION + name]}" for name, title in _TITLES.items()]
    when = "none yet"
    if last is not None:
        found = f"{counted(last.conversations, 'conversation')}, {counted(last.exchanges, 'exchange')}"
        when = f"{ago(datetime.now(UTC) - last.at)} ({found})"
    lines += ["", f"Last retrieval: {when}"]
    session.tell(as_json, {**facts, "settings": view_of(values)}, *lines)


def _values(harken: Harken) -> list[SettingValue]:
    return [each for each in harken.loaded.values() if each.key.startswith(_SECTION)]


def _seeds_key(key: str) -> str:
    """`rag_conversation_limit` for `rag.conversation_limit`, as the seed writes it and `rag set` takes it."""
    return _SEED_PREFIX + key.removeprefix(_SECTION)


def _shown(value: SettingValue) -> str:
    if value.value is None:
        return "the model's own"
    if isinstance(value.value, list | tuple):
        return ", ".join(value.value) or "none"
    if isinstance(value.value, bool):
        return str(value.value).lower()
    return f"{value.value:.2f}" if isinstance(value.value, float) else str(value.value)


for _operation in JUDGING:
    if _operation.show is not None:
        rag.add_command(command_of(_operation))
