"""Standing rules and preferences: listed, confirmed, dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from harken.errors import UsageError
from harken.model.arguments import Argument
from harken.model.views import RuleView
from harken.serve.operations.operation import (
    WORD,
    Caller,
    Operation,
    Printer,
    changing,
    id_meant,
    listed,
    number_listed,
    whose,
)
from harken.text.shown import one_line, readable_age, short_key

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.model.lookups import Rule

_EXCERPT_CHARS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesArguments:
    """Which rules to list."""

    everything: Annotated[bool, Argument("Those that were dropped, and those that later ones replaced, as well.")] = (
        False
    )


class RulesAnswer(TypedDict):
    """Rules, newest first."""

    rules: list[RuleView]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleArguments:
    """One rule."""

    id: Annotated[str, Argument("Its id, the beginning of it, or its number in the last list."), WORD]


def _list(harken: Harken, wanted: RulesArguments, caller: Caller) -> Sequence[Rule]:
    found = harken.rules.list(wanted.everything)
    if caller.is_owner:
        number_listed(harken, [rule.uid for rule in found])
    return found


def _confirm(harken: Harken, wanted: RuleArguments, caller: Caller) -> Rule:
    if not caller.is_owner:
        raise UsageError("Only the owner can confirm a rule, at the command line or in a chat: harken rules confirm ID")
    return harken.rules.confirm(id_meant(harken, wanted.id, caller, lists="rules"))


def _show_rules(session: Printer, found: Sequence[Rule]) -> None:
    for number, rule in enumerate(found, start=1):
        # What another member has asked for is theirs alone: nothing is to be decided about it.
        is_settled = rule.holds or rule.superseded_by or (rule.origin and not rule.origin.is_mine)
        state = "dropped" if rule.state == "dropped" else "" if is_settled else "to be confirmed"
        session.say(
            (f"{number:>3}  ", "dim"),
            one_line(rule.text, _EXCERPT_CHARS),
            (f"  {readable_age(rule.created_at)}", "green"),
            (f"  {short_key(rule.project)}" if rule.project else "", "cyan"),
            (f"  {rule.uid}", "dim"),
            (f"  {'confirmed' if rule.holds and rule.state == 'confirmed' else state}", "yellow"),
            (f"  superseded by {rule.superseded_by}" if rule.superseded_by else "", "dim"),
            whose(rule.origin),
        )
    if not found:
        session.say("No rules. They are found in what you say: “always answer in metric units”, “call me Sam”.")


def _decided(word: str) -> Callable[[Printer, Rule], None]:
    return lambda printer, rule: printer.say(f"{word} {rule.uid}: {one_line(rule.text, _EXCERPT_CHARS)}")


OPERATIONS = (
    Operation(
        "rules",
        "List what the user has asked to hold from now on, newest first: rules and preferences.",
        RulesArguments,
        _list,
        "List standing rules",
        RulesAnswer,
        listed("rules"),
        help="List the rules and preferences that you have stated, newest first; confirm one, drop one.",
        show=_show_rules,
    ),
    changing(
        "rule_confirm",
        "Let a rule hold, whoever brought it in; only its owner can, at the command line or in a chat.",
        RuleArguments,
        _confirm,
        "Confirm a rule",
        RuleView,
        command="rules confirm",
        help="Let a rule hold, also one that was imported.",
        show=_decided("Confirmed"),
    ),
    changing(
        "rule_drop",
        "Let a rule hold no longer; only when the user asked for it. Its message stays.",
        RuleArguments,
        lambda harken, wanted, caller: harken.rules.drop(id_meant(harken, wanted.id, caller, lists="rules")),
        "Drop a rule",
        RuleView,
        command="rules drop",
        help="Let a rule hold no longer; its message stays as it is.",
        show=_decided("Dropped"),
    ),
)
