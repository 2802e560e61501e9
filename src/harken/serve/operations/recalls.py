"""What came back by itself: when, in which conversation, at which event of its agent, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from harken.errors import UsageError
from harken.model.arguments import Argument, Spelling
from harken.model.views import InjectionView, format_moment, parse_moment
from harken.serve.operations.operation import HIDDEN, Caller, Operation, Printer, view_of
from harken.text.shown import one_line

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.model.lookups import Injection

_EXCERPT_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallsArguments:
    """Which of them."""

    conversation: Annotated[
        str | None,
        Argument("Only what came back in this conversation: its id, or the beginning of it.", 6, 200),
    ] = None
    limit: Annotated[int, Argument("How many moments at most.", 1, 200), Spelling(limits=(1, 100_000))] = 20
    before: Annotated[
        str | None, Argument("Where to go on: the next_before of the answer before.", most=40), HIDDEN
    ] = None


class RecallsAnswer(TypedDict):
    """What came back by itself, newest first."""

    recalls: list[InjectionView]
    next_before: str | None


def _list(harken: Harken, wanted: RecallsArguments, _caller: Caller) -> Sequence[Injection]:
    try:
        before = None if wanted.before is None else parse_moment(wanted.before)
    except (ValueError, OverflowError) as error:
        raise UsageError("before: no moment. Give the next_before of the answer before.") from error
    uid = None
    if wanted.conversation is not None:
        uid = harken.chats.find(wanted.conversation).conversation_uid
    # One more tells whether there are others.
    return harken.archive.recalls(wanted.limit + 1, before, uid)


def _answer(found: Sequence[Injection], wanted: RecallsArguments) -> RecallsAnswer:
    shown = found[: wanted.limit]
    more = format_moment(shown[-1].at) if len(found) > wanted.limit else None
    return RecallsAnswer(recalls=view_of(list(shown)), next_before=more)


def _show(printer: Printer, found: Sequence[Injection]) -> None:
    if not found:
        printer.say("Nothing has come back by itself yet. Agents ask for it by their hooks: harken install")
    for each in found:
        at = f"{each.at.astimezone():%Y-%m-%d %H:%M}"
        printer.say((each.title or each.conversation_uid, "bold"), (f"  {at}  {each.event or ''}", "green"))
        for item in each.items:
            why = "why is not known" if item.why is None else item.why
            printer.say(f"  {item.source or 'gone'}: {one_line(item.text, _EXCERPT_CHARS)}")
            printer.say((f"    {item.uid} · {why}", "dim"))
        printer.say()


OPERATIONS = (
    Operation(
        "recalls",
        "List what came back by itself, newest first: when, in which conversation, and why.",
        RecallsArguments,
        _list,
        "List what came back by itself",
        RecallsAnswer,
        _answer,
        show=_show,
        is_paged=True,
    ),
)
