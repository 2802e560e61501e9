"""`harken new` and `harken model`: a new segment of a conversation, and the model that answers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import click

from harken.config.settings import LlmConfig, SettingValue, environment
from harken.errors import ConfigError, HarkenError, UsageError
from harken.providers.chat_model import TokenUsage
from harken.providers.options import ChatOptions
from harken.providers.registry import open_chat_model
from harken.serve.cli.session import CommandSession, json_option, print_json, with_session

_MODEL_KEY = "llm.model"
_MILLION = 1_000_000
HOW_TO_CONFIGURE = (
    "{prefix}model VENDOR:MODEL, e.g. openai:gpt-5-mini, anthropic:…, google:… or ollama:…; its key in OPENAI_API_KEY, "
    "ANTHROPIC_API_KEY, GOOGLE_API_KEY or HARKEN_LLM__API_KEY; pip install 'harken[llm]'"
)


@click.command()
@click.option("--conversation", help="Its id, the beginning of it, or its own name; else the one that was active last.")
@json_option
@with_session
def new(session: CommandSession, conversation: str | None, as_json: bool) -> None:
    """Begin a new segment of a conversation: what was said stays, and the model starts with a clean window."""
    with session.engine() as harken:
        talk = session.talk if conversation is None and session.talk else harken.chats.find(conversation)
        if harken.chats.newest(talk.conversation_uid).segment_uid is None:
            raise UsageError("Nothing was said in this conversation yet: it is new.")
        segment = harken.recorder.new_segment(talk.conversation_uid)
    if as_json:
        print_json({"conversation_id": talk.conversation_uid, "segment_id": segment.uid, "number": segment.number})
        return
    for line in (
        f"Segment {segment.number} of conversation {talk.conversation_uid} begins.",
        "  Kept: all that was said, summaries, core memory, the model and other settings; search still finds it.",
        "  Anew: the window, the rolling summary, and what comes back from earlier in this conversation.",
    ):
        session.out.print(line, markup=False)


@click.command()
@click.argument("name", required=False)
@json_option
@with_session
def model(session: CommandSession, name: str | None, as_json: bool) -> None:
    """Show the language model, or have another one answer from now on: NAME is vendor:model, e.g. openai:gpt-5-mini."""
    with session.engine() as harken:
        if name is not None:
            _open(harken.settings.llm.model_copy(update={"model": name}))
            harken.run_time.set(_MODEL_KEY, name)
        facts = _facts(harken.settings.llm, harken.run_time.get(_MODEL_KEY))
    if as_json:
        print_json(facts)
        return
    if facts["model"] is None:
        session.out.print("No language model is configured: nothing is ever sent to one.")
        session.out.print(f"Set one: {HOW_TO_CONFIGURE.format(prefix=session.prefix)}", markup=False)
        return
    session.out.print(f"{facts['model']} ({facts['origin']}), {_price_words(facts)}", markup=False)
    if facts["problem"]:
        session.out.print(f"It cannot be used: {facts['problem']}", markup=False)


def _open(wanted: LlmConfig) -> tuple[Decimal | None, Decimal | None]:
    """Prices in USD for a million tokens of input and of output; nothing is sent.

    Raises:
        HarkenError: the model cannot be opened.
    """
    options = ChatOptions.of(wanted, environment())
    if options is None:
        raise ConfigError("A model is written as vendor:model, e.g. openai:gpt-5-mini.")
    opened = open_chat_model(options)
    try:
        return opened.price(TokenUsage(input_tokens=_MILLION)), opened.price(TokenUsage(output_tokens=_MILLION))
    finally:
        opened.close()


def _facts(wanted: LlmConfig, kept: SettingValue) -> dict[str, Any]:
    prices: tuple[Decimal | None, Decimal | None] = (None, None)
    problem = ""
    if wanted.model:
        try:
            prices = _open(wanted)
        except HarkenError as error:
            problem = str(error)
    into, out = (None if price is None else float(price) for price in prices)
    shown = {"model": wanted.model or None, "origin": kept.origin, "url": wanted.url, "problem": problem or None}
    return {**shown, "input_usd_per_million": into, "output_usd_per_million": out}


def _price_words(facts: dict[str, Any]) -> str:
    into, out = facts["input_usd_per_million"], facts["output_usd_per_million"]
    if into is None or out is None:
        return "of no known price"
    return f"${into:.2f} for a million tokens of input, ${out:.2f} of output"
