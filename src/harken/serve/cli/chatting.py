"""`harken context` and `harken core`: what a model would get to see, and what it always knows."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from harken.chat.prompt import PAST_TOOL_NOTE, SYSTEM_PROMPT
from harken.context.layers import Layer, LayerName
from harken.model.conversations import CoreFact, Trust
from harken.record.core_memory import SECTIONS
from harken.serve.cli.session import CommandSession, counted, json_option, print_json, untrusted_option, with_session
from harken.serve.facts.context import context_facts

_EXCERPT = 160
_SECTION = click.Choice(SECTIONS)


@click.command("context")
@click.argument("text", nargs=-1)
@click.option("--conversation", help="Its id, the beginning of it, or its own name; else the one that was active last.")
@click.option("--budget", type=click.IntRange(min=1), metavar="TOKENS", help="In place of the setting.")
@untrusted_option
@json_option
@with_session
def context_command(
    session: CommandSession,
    text: tuple[str, ...],
    conversation: str | None,
    budget: int | None,
    no_untrusted: bool,
    as_json: bool,
) -> None:
    """Show what a model would get to see if TEXT were said now: each layer, its tokens, and why it is there.

    Without TEXT, what stands in its context before anything is said.
    """
    pending = [" ".join(text)] if text else []
    with session.engine() as harken:
        if conversation is None and session.talk is not None:
            found = harken.chats.newest(session.talk.conversation_uid)
            prompt, note = harken.settings.context.system_prompt or SYSTEM_PROMPT, PAST_TOOL_NOTE
        else:
            found, prompt, note = harken.chats.find(conversation), None, ""
        context = harken.chats.build(
            found,
            pending,
            budget_tokens=budget,
            system_prompt=prompt,
            is_preview=True,
            past_note=note,
            include_untrusted=not no_untrusted,
        )
    if as_json:
        print_json(context_facts(context, found.conversation_uid))
        return
    session.out.print(Text(f"{found.conversation_uid} · {context.tokens} of {context.budget_tokens} tokens", "bold"))
    for layer in context.layers:
        _print_layer(session, layer)
    for note in context.notes:
        session.out.print(Text(note, "dim"))


@click.group()
def core() -> None:
    """What the agent always knows of its user and of itself: small values that stand in every context."""


@core.command()
@click.argument("section", type=_SECTION)
@click.argument("key")
@json_option
@with_session
def get(session: CommandSession, section: str, key: str, as_json: bool) -> None:
    """Print a value."""
    with session.engine() as harken:
        value = harken.core.get(section, key)
    if as_json:
        print_json({"section": section, "key": key, "value": value})
    else:
        session.out.print(value, markup=False)


@core.command("set")
@click.argument("section", type=_SECTION)
@click.argument("key")
@click.argument("value", nargs=-1, required=True)
@json_option
@with_session
def set_value(session: CommandSession, section: str, key: str, value: tuple[str, ...], as_json: bool) -> None:
    """Set a value, in place of the one before."""
    with session.engine() as harken:
        fact = harken.core.update(section, key, " ".join(value))
    if as_json:
        print_json(_core_facts(fact))
    else:
        session.out.print(f"{fact.section} {fact.key}: {fact.value}", markup=False)


@core.command()
@click.argument("section", type=_SECTION)
@click.argument("key")
@json_option
@with_session
def delete(session: CommandSession, section: str, key: str, as_json: bool) -> None:
    """Forget a value."""
    with session.engine() as harken:
        harken.core.delete(section, key)
    if as_json:
        print_json({"forgotten": {"section": section, "key": key}})
    else:
        session.out.print(f"Forgot {section} {key}.", markup=False)


@core.command("list")
@click.argument("section", type=_SECTION, required=False)
@json_option
@with_session
def list_facts(session: CommandSession, section: str | None, as_json: bool) -> None:
    """Show every value."""
    with session.engine() as harken:
        facts = harken.core.list(section)
    if as_json:
        print_json([_core_facts(fact) for fact in facts])
        return
    for fact in facts:
        session.out.print(f"{fact.section} {fact.key}: {fact.value}", markup=False)
    if not facts:
        session.out.print(f"Nothing is kept. Keep something: {session.prefix}core set user KEY VALUE", markup=False)


def _core_facts(fact: CoreFact) -> dict[str, Any]:
    return {"section": fact.section, "key": fact.key, "value": fact.value, "updated_at": fact.at.isoformat()}


def _print_layer(session: CommandSession, layer: Layer) -> None:
    session.out.print(Text(f"{layer.name.value}  {layer.tokens} tokens, {counted(len(layer.items), 'item')}", "bold"))
    for item in layer.items:
        words = " ".join(item.text.split())
        shown = words if len(words) <= _EXCERPT else words[: _EXCERPT - 1] + "…"
        speaker = item.facts.get("role") or (item.uid if layer.name is LayerName.CORE else "")
        said = f"{speaker}: " if speaker else ""
        session.out.print(Text(f"  {said}{shown}"))
        if layer.name in (LayerName.AUTO_RAG, LayerName.PAST, LayerName.SUMMARY):
            trust = Trust(item.facts.get("trust", Trust.AGENT))
            label = f" · {trust.label}" if trust.is_untrusted else ""
            session.out.print(Text(f"    {item.uid} · {item.why}{label}", "dim"))
