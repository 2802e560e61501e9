"""`harken chat`, `new`, `model`, `core` and `task`: conversations, the model, core memory, scheduled tasks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from harken.errors import ConfigError, HarkenError, UsageError
from harken.model.arguments import SECTIONS
from harken.model.views import format_moment
from harken.serve.cli.reporting import HOW_TO_CONFIGURE
from harken.serve.cli.session import CommandAnswer, CommandSession, on_store, with_json
from harken.serve.operations.status import limit_words
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.config.sections import LlmConfig
    from harken.context.task_history import Run
    from harken.engine import Harken
    from harken.model.conversations import CoreFact

_MODEL_KEY = "llm.model"
_MILLION = 1_000_000


@click.command()
@click.argument("message", nargs=-1, metavar="[MESSAGE]...")
@click.option("--continue", "continues", is_flag=True, help="Go on with the chat that was active last.")
@click.option("--conversation", help="Go on with this conversation: its id, the beginning of it, or its own name.")
@click.pass_context
def chat(context: click.Context, message: tuple[str, ...], continues: bool, conversation: str | None) -> None:
    """Talk with the configured model, with all that is remembered; with a MESSAGE, have it answered and leave.

    /help lists the commands. Where stdin is no terminal, its lines are what is said, and stdout gets the answers alone.
    """
    from harken.serve.repl.loop import run_chat

    run_chat(context, () if message == ("-",) else message, continues, conversation)


@click.command()
@click.option("--conversation", help="Its id, the beginning of it, or its own name; else the one that was active last.")
@with_json
def new(session: CommandSession, conversation: str | None, as_json: bool) -> None:
    """Begin a new segment of a conversation: what was said stays, and the model starts with a clean window."""
    with session.engine(["record"]) as harken:
        talk = session.talk if conversation is None and session.talk else harken.chats.find(conversation)
        if harken.chats.newest(talk.conversation_uid).segment_uid is None:
            raise UsageError("Nothing was said in this conversation yet: it is new.")
        segment = harken.recorder.new_segment(talk.conversation_uid)
    session.tell(
        as_json,
        {"conversation_id": talk.conversation_uid, "segment_id": segment.uid, "number": segment.number},
        f"Segment {segment.number} of conversation {talk.conversation_uid} begins.",
        "  Kept: all that was said, summaries, core memory, the model and other settings; search still finds it.",
        "  Anew: the window, the rolling summary, and what comes back from earlier in this conversation.",
    )


@click.command()
@click.argument("name", required=False)
@with_json
def model(session: CommandSession, name: str | None, as_json: bool) -> None:
    """Show the language model, or have another one answer from now on: NAME is vendor:model, e.g. openai:gpt-5-mini."""
    with session.engine() as harken:
        if name is not None:
            _prices(harken.settings.llm.model_copy(update={"model": name}))
            harken.run_time.set(_MODEL_KEY, name)
        llm, origin = harken.settings.llm, harken.run_time.get(_MODEL_KEY).origin
    into, out, problem = None, None, None
    try:
        into, out = _prices(llm) if llm.model else (None, None)
    except HarkenError as error:
        problem = str(error)
    lines = [f"{llm.model} ({origin}), {_price_words(into, out)}"]
    lines += [f"It cannot be used: {problem}"] if problem else []
    if not llm.model:
        how = HOW_TO_CONFIGURE.format(prefix=session.prefix)
        lines = ["No language model is configured: nothing is ever sent to one.", f"Set one: {how}"]
    view = {"model": llm.model or None, "origin": origin, "url": llm.url, "problem": problem}
    session.tell(as_json, {**view, "input_usd_per_million": into, "output_usd_per_million": out}, *lines)


def choose_model(
    session: CommandSession, harken: Harken, name: str | None, *, is_asking: bool, is_agreed: bool
) -> str | None:
    """Have a person choose a language model, whose price they are told and agree to; the one that is set then."""
    llm = harken.settings.llm
    if name is None and llm.model:
        session.note(f"Language model: {llm.model}. Another one: harken model VENDOR:MODEL")
    elif name is None and is_asking:
        question = "A language model answers in `harken chat` and writes summaries. VENDOR:MODEL, or Enter for none"
        name = click.prompt(question, default="", show_default=False, err=True).strip()
    if not name:
        return llm.model
    price = _price_words(*_prices(llm.model_copy(update={"model": name})))
    limit = limit_words(llm.max_usd_per_day)
    session.note(f"{name}: {price}, {limit}. What is said from now on is sent to it to be answered and summarized.")
    if is_agreed or (is_asking and session.agrees(f"to use {name}")):
        harken.run_time.set(_MODEL_KEY, name)
    return harken.settings.llm.model


def _price_words(into: float | None, out: float | None) -> str:
    if into is None or out is None:
        return "of no known price"
    return f"${into:.2f} for a million tokens of input, ${out:.2f} of output"


def _prices(wanted: LlmConfig) -> tuple[float | None, float | None]:
    """Prices in USD for a million tokens of input and of output; nothing is sent."""
    from harken.config.settings import environment
    from harken.providers.chat_model import TokenUsage
    from harken.providers.options import ChatOptions
    from harken.providers.registry import open_chat_model

    options = ChatOptions.of(wanted, environment())
    if options is None:
        raise ConfigError("A model is written as vendor:model, e.g. openai:gpt-5-mini.")
    opened = open_chat_model(options)
    try:
        into = opened.price(TokenUsage(input_tokens=_MILLION))
        out = opened.price(TokenUsage(output_tokens=_MILLION))
    finally:
        opened.close()
    return (None if into is None else float(into)), (None if out is None else float(out))


core, task = click.Group("core"), click.Group("task")
_SECTION = click.argument("section", type=click.Choice(SECTIONS))
_KEY = click.argument("key")


@core.command()
@_SECTION
@_KEY
@on_store
def get(harken: Harken, section: str, key: str) -> CommandAnswer:
    """Print a value."""
    value = harken.core.get(section, key)
    return CommandAnswer({"section": section, "key": key, "value": value}, [value])


@core.command("set")
@_SECTION
@_KEY
@click.argument("value", nargs=-1, required=True)
@partial(on_store, scopes=["remember"])
def set_value(harken: Harken, section: str, key: str, value: Sequence[str]) -> CommandAnswer:
    """Set a value, in place of the one before."""
    fact = harken.core.update(section, key, " ".join(value))
    return CommandAnswer(_core_view(fact), [_core_line(fact)])


@core.command()
@_SECTION
@_KEY
@partial(on_store, scopes=["remember"])
def delete(harken: Harken, section: str, key: str) -> CommandAnswer:
    """Forget a value."""
    harken.core.delete(section, key)
    return CommandAnswer({"forgotten": {"section": section, "key": key}}, [f"Forgot {section} {key}."])


@core.command("list")
@click.argument("section", type=click.Choice(SECTIONS), required=False)
@with_json
def list_facts(session: CommandSession, section: str | None, as_json: bool) -> None:
    """Show every value."""
    with session.engine() as harken:
        facts = harken.core.list(section)
    empty = f"Nothing is kept. Keep something: {session.prefix}core set user KEY VALUE"
    session.tell(as_json, [_core_view(fact) for fact in facts], *(map(_core_line, facts) if facts else [empty]))


def _core_line(fact: CoreFact) -> str:
    return f"{fact.section} {fact.key}: {fact.value}"


def _core_view(fact: CoreFact) -> dict[str, Any]:
    return {"section": fact.section, "key": fact.key, "value": fact.value, "updated_at": fact.at.isoformat()}


@task.command()
@click.argument("name")
@click.argument("message")
@click.option("--answer", metavar="TEXT|-", help="What another program has answered; - reads it from stdin.")
@click.option("--deliver", metavar="CONVERSATION", help="Record the answer in this conversation too, by its id.")
@click.option("--show-context", is_flag=True, help="Show, before the answer, all that the model gets to see.")
@with_json
def run(
    session: CommandSession,
    name: str,
    message: str,
    answer: str | None,
    deliver: str | None,
    show_context: bool,
    as_json: bool,
) -> None:
    """Run a task once and record it: what it was asked, what was answered, how it ended.

    The configured model answers, with its tools, unless an --answer is given. The answer is silent: it stands in the
    task's own history, and nowhere else unless it is delivered.
    """
    from harken.serve.repl.showing import PlainAnswer

    given = sys.stdin.read() if answer == "-" else answer
    message = sys.stdin.read() if message == "-" else message
    if given is not None and not given.strip():
        raise UsageError("The answer is empty. Nothing was recorded.")
    with session.engine(["record"]) as harken:
        context = harken.tasks.context(name, message, system=harken.tasks.prompt) if show_context else []
        for shown in [] if as_json else context:
            session.say((f"{shown.role.value}: ", "bold"), shown.content)
        with PlainAnswer(session.err) as view:
            listen = (lambda _event: None) if as_json else view.listen
            said = None if given is None else lambda _context: given
            done = harken.tasks.run(name, message, said, deliver, listen=listen)
    delivered, cut = done.delivered.uid if done.delivered else None, done.run.messages[-1].metadata.get("cut")
    facts = {"task": done.task, **_run_view(done.run), "delivered": delivered, "cut": cut}
    if show_context:
        facts["context"] = [shown.as_dict() for shown in context]
    gone = f", not delivered: {deliver} was forgotten meanwhile" if deliver and not done.run.error else ""
    line = f"Recorded run {done.run.uid} of {done.task}{f', delivered as {delivered}' if delivered else gone}."
    failure = done.run.error if given is None else None
    if given is not None or as_json:
        session.tell(as_json, facts, line)
    elif not failure:
        # The answer stands on stdout already.
        session.note(line)
    if cut and not failure:
        session.note("The answer was cut off: at llm.max_tokens, which can be raised, or by the endpoint.")
    if failure:
        raise HarkenError(f"Run {done.run.uid} of {done.task} failed: {failure}")


@task.command("list")
@on_store
def list_tasks(harken: Harken) -> CommandAnswer:
    """List the tasks that have run."""
    views, lines = [], []
    for one in harken.tasks.list():
        facts = {"name": one.name, "id": one.uid, "runs": one.runs, "completed": one.completed}
        views.append({**facts, "last_at": format_moment(one.last_at), "last_status": one.last_status.value})
        last = f"{one.last_status.value} {one.last_at.astimezone():%Y-%m-%d %H:%M}"
        lines.append(f"{one.name}  {counted(one.runs, 'run')}, {one.completed} completed, last {last}")
    return CommandAnswer(views, lines or ["No task has run. Run one: harken task run NAME MESSAGE"])


@task.command()
@click.argument("name")
@click.option("--runs", type=int, help="How many at most; the setting context.subagent_history unless given.")
@click.option("--complete", is_flag=True, help="Only what the next run will see: runs that came to their answer.")
@on_store
def history(harken: Harken, name: str, runs: int | None, complete: bool) -> CommandAnswer:
    """Show a task's last runs, oldest first."""
    found = harken.tasks.history(name, runs, complete)
    lines = []
    for one in found:
        error = f": {one.error}" if one.error else ""
        lines.append(f"{one.started_at.astimezone():%Y-%m-%d %H:%M}  {one.status.value}{error}  {one.uid}")
        lines += [f"  {message.role.value}: {message.text}" for message in one.messages]
    return CommandAnswer([_run_view(one) for one in found], lines)


def _run_view(found: Run) -> dict[str, Any]:
    return {
        "id": found.uid,
        "status": found.status.value,
        "started_at": format_moment(found.started_at),
        "ended_at": None if found.ended_at is None else format_moment(found.ended_at),
        "error": found.error,
        "messages": [
            {"id": one.uid, "role": one.role.value, "type": one.type.value, "text": one.text} for one in found.messages
        ],
    }
