"""Verdicts on what was recalled, and the list of what was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from harken.errors import UsageError
from harken.model.arguments import Argument, Spelling
from harken.model.marks import AGENT, OWNER, VERDICTS, Verdict
from harken.model.views import InjectionView, RatingView, format_moment, parse_moment
from harken.serve.operations.operation import (
    HIDDEN,
    WORD,
    Caller,
    Effect,
    Operation,
    Printer,
    changing,
    id_meant,
    number_listed,
    view_of,
    whose,
)
from harken.text.shown import one_line

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.model.lookups import Injection
    from harken.record.feedback import Judged

_EXCERPT_CHARS = 120
_QUESTION = Argument("What it was wrong for, or useful; left out, the question it came back with last.", most=2000)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeArguments:
    """One thing that was recalled, and the question that it was recalled for."""

    id: Annotated[str, Argument("Its id, the beginning of it, or its number in the last list.", 1, 200), WORD]
    question: Annotated[
        str, _QUESTION, Spelling(help="The question, where it is not the one that it came back with.")
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateArguments(JudgeArguments):
    """A verdict on something that was recalled."""

    verdict: Annotated[str, Argument("How it was; none takes back what was said before.", choices=(*VERDICTS, "none"))]
    conversation: Annotated[
        str,
        Argument("The one in which it came back: its whole id; left out, where it did last.", most=200, is_rare=True),
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallsArguments:
    """Which of them."""

    conversation: Annotated[
        str | None, Argument("Only what came back in this one: its id, how it begins, or its own name.", most=200)
    ] = None
    limit: Annotated[int, Argument("How many moments at most.", 1, 200), Spelling(limits=(1, 100_000))] = 20
    before: Annotated[
        str | None, Argument("Where to go on: the next_before of the answer before.", most=40), HIDDEN
    ] = None


class RecallsAnswer(TypedDict):
    """What came back by itself, newest first."""

    recalls: list[InjectionView]
    next_before: str | None


def _rate(harken: Harken, wanted: JudgeArguments, verdict: str, caller: Caller, given_to: str = "") -> Judged:
    uid = id_meant(harken, wanted.id, caller, lists="rag recalls")
    by = OWNER if caller.is_owner else AGENT
    return harken.feedback.rate(
        uid, Verdict(verdict), by=by, question=wanted.question, given_to=given_to, once=caller.once
    )


def _show_judged(printer: Printer, found: Judged) -> None:
    printer.say(f"{found.kind} {found.uid}: {found.words or 'no verdict any more'}, counts {found.factor:.2f} times.")
    if "wrong" in found.words:
        about = f"to “{one_line(found.question, _EXCERPT_CHARS)}” and the like" if found.question else "to any question"
        printer.say(f"It does not come back by itself {about}; search finds it.")


def _recalls(harken: Harken, wanted: RecallsArguments, caller: Caller) -> Sequence[Injection]:
    try:
        before = None if wanted.before is None else parse_moment(wanted.before)
    except (ValueError, OverflowError) as error:
        raise UsageError("before: no moment. Give the next_before of the answer before.") from error
    uid = None
    if wanted.conversation is not None:
        uid = harken.chats.find(wanted.conversation).conversation_uid
    found = harken.archive.recalls(caller.read_ahead(wanted.limit), before, uid)
    if caller.is_owner:
        number_listed(harken, [item.uid for each in found for item in each.items])
    return found


def _recalls_answer(found: Sequence[Injection], wanted: RecallsArguments) -> RecallsAnswer:
    shown = found[: wanted.limit]
    more = format_moment(shown[-1].at) if len(found) > wanted.limit else None
    return RecallsAnswer(recalls=view_of(list(shown)), next_before=more)


def _show_recalls(printer: Printer, found: Sequence[Injection]) -> None:
    count = 0
    for each in found:
        at = f"{each.at.astimezone():%Y-%m-%d %H:%M}"
        printer.say((each.title or each.conversation_uid, "bold"), (f"  {at}  {each.event or ''}", "green"))
        if each.question:
            printer.say((f"     asked: {one_line(each.question, _EXCERPT_CHARS)}", "dim"))
        for number, item in enumerate(each.items, count + 1):
            why = "why is not known" if item.why is None else item.why
            printer.say((f"{number:>3}  ", "dim"), f"{item.source or 'gone'}: {one_line(item.text, _EXCERPT_CHARS)}")
            printer.say(
                (f"     {item.uid} · {why}", "dim"),
                (f" · {item.rated}" if item.rated else "", "yellow"),
                whose(item.origin),
            )
        count += len(each.items)
        printer.say()
    if not found:
        printer.say("Nothing has come back by itself yet. Agents ask for it by their hooks: harken install")


def _judging(words: str, verdict: str, help: str) -> Operation[JudgeArguments, Judged]:
    return Operation(
        words,
        help,
        JudgeArguments,
        lambda harken, wanted, caller: _rate(harken, wanted, verdict, caller),
        effect=Effect.CHANGES,
        scope="remember",
        show=_show_judged,
    )


OPERATIONS = (
    changing(
        "rate",
        "Say of what memory brought back whether it was useful, useless or wrong. What is wrong does not come back by "
        "itself to such a question.",
        RateArguments,
        lambda harken, wanted, caller: _rate(harken, wanted, wanted.verdict, caller, wanted.conversation),
        "Judge what was recalled",
        RatingView,
    ),
    Operation(
        "recalls",
        "List what came back by itself, newest first: when, in which conversation, at what question, why, and how it "
        "was rated.",
        RecallsArguments,
        _recalls,
        "List what came back by itself",
        RecallsAnswer,
        _recalls_answer,
        command="rag recalls",
        help="List what came back by itself, newest first, and why; `harken rag wrong 2` judges the second.",
        show=_show_recalls,
        is_paged=True,
    ),
    _judging("rag useful", "useful", "Say that ID, which came back, was useful: it counts a little more."),
    _judging("rag useless", "useless", "Say that ID, which came back, was of no use: it counts a little less."),
    _judging("rag wrong", "wrong", "Say that ID was wrong: it does not come back by itself to such a question."),
    _judging("rag upvote", "useful", "The same as useful."),
    _judging("rag downvote", "useless", "The same as useless."),
    _judging("rag reset", "none", "Take back all that was said of ID."),
)
