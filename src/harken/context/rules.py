"""Standing rules and preferences: which of them hold, and which touch what is asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from harken.config.sections import RagConfig
from harken.context.compose import marked
from harken.context.render import Quote
from harken.errors import NotFoundError
from harken.model.conversations import ContextItem, Trust
from harken.model.lookups import Rule, RuleState
from harken.record.core_memory import CoreMemory
from harken.search.query import Query, asks_nothing, parse_query, share_held
from harken.search.relevance import Gate
from harken.search.session import SearchSession, attempted
from harken.search.spread import searched_for
from harken.search.union import whose
from harken.storage.ports import RowScope, Transaction
from harken.storage.projects import ALL, ProjectScope
from harken.storage.records.rules import RULES, read_rules
from harken.text import tokens
from harken.text.rules import matter_of
from harken.text.shown import short_key

RULE = "rule"
# Before a rule that stands among other quotations.
RULE_SAID = "The user has asked for this to hold from now on:"
_SHOWN, _SHOWN_TOKENS = 3, 60
_OWN = Trust.OWNER
_STATED = "a rule that you have stated, on what is asked"
# Of the words that say what a rule is about, or when it holds, a task has so many, or all.
_LEAST_SHARE, _LEAST_WORDS = 0.5, 2


@dataclass(frozen=True, slots=True)
class Rules:
    """What people have said to hold from now on; reached as `Harken.rules`."""

    core_memory: CoreMemory

    def list(self, everything: bool = False) -> list[Rule]:
        """Those that hold or wait to be confirmed, newest first; with the dropped and the superseded ones if wanted."""
        with self.core_memory.recorder.store.reading() as tx:
            found = standing_rules(tx)
        return [rule for rule in found if everything or not (rule.state is RuleState.DROPPED or rule.superseded_by)]

    def confirm(self, uid: str) -> Rule:
        """Let a rule hold, whoever brought it in.

        Raises:
            NotFoundError: no rule has this id, or several begin with it.
        """
        return self._decide(uid, RuleState.CONFIRMED)

    def drop(self, uid: str) -> Rule:
        """Let a rule hold no longer; its message stays as it is.

        Raises:
            NotFoundError: no rule has this id, or several begin with it.
        """
        return self._decide(uid, RuleState.DROPPED)

    def _decide(self, uid: str, state: RuleState) -> Rule:
        found = [rule for rule in Rules.list(self, everything=True) if rule.uid.startswith(uid)]
        found = [rule for rule in found if rule.uid == uid] or found
        if len(found) != 1 or not uid:
            what = f"Several rules begin with {uid}" if found else f"There is no rule {uid}"
            raise NotFoundError(f"{what}. See: harken rules")
        self.core_memory.put(RULES, found[0].uid, state.value)
        return replace(found[0], state=state)


def standing_rules(tx: Transaction, seen: ProjectScope | None = None, only_counting: bool = False) -> list[Rule]:
    """Every rule that is seen, or that counts, newest first, each with the later one that stands in its place.

    Without a project at hand that is one of the same project, or of none. A dropped one still stands in the place of
    those before it: what was said twice does not come back. Those of other projects come behind, where they may come
    at all, and are general: how code is written is a project's own matter.
    """
    rules = read_rules(tx, only_counting)
    if seen and seen.mode != ALL:
        others = frozenset(seen.others.values())
        foreign = [rule for rule in rules if rule.project in others]
        rules = [rule for rule in rules if rule.project not in others]
        rules += [rule for rule in foreign if seen.prefers and matter_of(rule.text).is_general]
    found: list[Rule] = []
    later: dict[str, list[Rule]] = {}
    for rule in rules:
        matter = matter_of(rule.text)
        names = matter.demand | matter.case | matter.kinds
        near = None, rule.project
        beside = {one.uid: one for name in names for one in later.get(name, ()) if seen or one.project in near}
        newer = next((other.uid for other in beside.values() if matter.is_of(matter_of(other.text))), "")
        found.append(replace(rule, superseded_by=newer))
        if rule.counts:
            for name in names:
                later.setdefault(name, []).append(rule)
    return found


def rule_quotes(
    searches: SearchSession, query: Query | None, config: RagConfig, besides: Collection[str] = (), of_others: str = ""
) -> list[Quote]:
    """At most three rules that touch a task, the newest first: those that are about it, and general ones.

    Without a query, general ones alone. None of messages that are named `besides`, nor of the conversation `of_others`.
    """
    is_idle = query is not None and asks_nothing(query, searches.config.min_query_tokens)
    if not config.enabled or not config.rules or is_idle:
        return []
    with searches.view.reading() as tx:
        rules = [
            rule
            for rule in standing_rules(tx, searches.projects, only_counting=True)
            if rule.holds and rule.message_uid not in besides and rule.conversation_uid != of_others
        ]
    origins = whose(searches, [(searches.space, (rule.message_uid, rule.conversation_uid)) for rule in rules])
    # What somebody else wants to hold, holds for them.
    rules = [rule for rule, origin in zip(rules, origins, strict=True) if origin is None or origin.is_mine]
    about = _about(searches, query, [rule for rule in rules if not matter_of(rule.text).is_general]) if query else []
    chosen = {rule.uid for rule in [*about, *(rule for rule in rules if matter_of(rule.text).is_general)][:_SHOWN]}
    return [_quote(rule, searches.projects) for rule in rules if rule.uid in chosen]


def _about(searches: SearchSession, query: Query, rules: Sequence[Rule]) -> list[Rule]:
    """Those near enough in meaning, or with enough words of the task."""
    near: dict[int, float] = {}
    gate = Gate(None)
    with attempted("rules", []):
        asked = searches.vector(searched_for(query), known_scripts_only=True) if rules else ""
        if not isinstance(asked, str):
            gate = Gate.of(asked, searches.config.relevance_threshold, searches.config)
            with searches.view.reading() as tx:
                ids = [rule.entry_id for rule in rules]
                near = asked.compare(tx, searches.view.nearest, RowScope(), 0, ids)[1]
    return [rule for rule in rules if gate.admits(near.get(rule.entry_id), False) or _has_words(rule, query)]


def _has_words(rule: Rule, query: Query) -> bool:
    matter = matter_of(rule.text)
    words = matter.case or matter.demand
    share = share_held(words, query.terms)
    return share >= _LEAST_SHARE and (share == 1.0 or share * len(words) >= _LEAST_WORDS)


def _quote(rule: Rule, seen: ProjectScope) -> Quote:
    text = tokens.clip(rule.text, _SHOWN_TOKENS)
    project = short_key(rule.project or "") if seen.is_other(rule.project) else ""
    # Behind all of the project at hand, where no heading says so.
    text = f"{RULE_SAID} {text}" if project else text
    facts = rule.uid, "user", rule.created_at, rule.trust.value
    return Quote(text, RULE, *facts, project=project, why=_STATED)


def rule_items(searches: SearchSession, query: str, config: RagConfig) -> list[ContextItem]:
    """Those rules (`rule_quotes`) as items of an assembled context."""
    quotes = rule_quotes(searches, parse_query(query), config)
    return [
        marked(
            ContextItem(RULE, each.text, 1.0, {"id": each.uid, "created_at": each.at.isoformat()}), _OWN, each.project
        )
        for each in quotes
    ]
