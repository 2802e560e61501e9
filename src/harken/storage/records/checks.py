"""Tests and builds that were seen to run: which message says how each went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, exists, func

from harken.model.conversations import ProjectIdentity
from harken.storage.conversations import project_in
from harken.storage.ports import Transaction
from harken.storage.tables import checks, conversations, exchanges, messages, projects, reader, refers, same

_calls = messages.alias("calls")


@dataclass(frozen=True, slots=True)
class ShellResult:
    """The output of a shell command, with its call; nobody has looked at it yet."""

    result_uid: str
    call_uid: str
    channel: str
    tool_name: str
    call: str
    printed: str
    facts: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class SeenCheck:
    """A test or build that ran, in a conversation of the project; `outcome` is `passed` or `failed`."""

    result_uid: str
    outcome: str
    at: datetime
    conversation_uid: str
    exchange_uid: str
    project: ProjectIdentity | None
    tool_name: str
    call: str
    printed: str


def unseen_results(
    tx: Transaction, tools: Sequence[str], limit: int, since: datetime | None = None
) -> list[ShellResult]:
    """Results of shell commands, by the tools that run them, that nobody has looked at, oldest first."""
    seen = exists().where(same(messages.c.uid, checks.c.result_uid))
    columns = (
        *(messages.c.uid.label("result_uid"), _calls.c.uid.label("call_uid"), conversations.c.channel),
        *(messages.c.tool_name, _calls.c.text.label("call"), messages.c.text.label("printed")),
        *(messages.c.metadata.label("facts"), messages.c.created_at.label("at")),
    )
    in_conversation = same(messages.c.conversation_id, _calls.c.conversation_id)
    of_call = and_(in_conversation, _calls.c.call_id == messages.c.call_id, _calls.c.type == "tool_call")
    statement = (
        tx.select(*columns, of=messages)
        .select_from(messages)
        .join(_calls, of_call)
        .join(conversations, refers(messages.c.conversation_id, conversations))
        .where(messages.c.type == "tool_result", messages.c.tool_name.in_(tools), ~seen)
        .order_by(messages.c.id)
        .limit(limit)
    )
    if since is not None:
        statement = statement.where(messages.c.created_at >= since)
    return list(map(_shell_result, tx.connection.execute(statement)))


def put_checks(tx: Transaction, looked_at: Sequence[tuple[ShellResult, str | None]]) -> None:
    """Remember how each went, or that it says nothing; another process may have done so already."""
    named = checks.c.result_uid.in_([one.result_uid for one, _ in looked_at])
    known = set(tx.connection.scalars(tx.select(checks.c.result_uid).where(named)))
    rows = {
        one.result_uid: {"result_uid": one.result_uid, "call_uid": one.call_uid, "outcome": outcome, "at": one.at}
        for one, outcome in looked_at
        if one.result_uid not in known
    }
    tx.insert(checks, rows.values())


def latest_check(tx: Transaction, project: str, since: datetime) -> SeenCheck | None:
    """The last check of a project behind a moment; of conversations without one where the key is empty."""
    of_project = projects.c.key == project if project else conversations.c.project_id.is_(None)
    statement = _seen(tx).where(of_project, checks.c.at > since).order_by(checks.c.at.desc(), checks.c.id.desc())
    row = tx.connection.execute(statement.limit(1)).first()
    return None if row is None else _check(row, project=project_in(row))


def all_checks(tx: Transaction, limit: int) -> list[SeenCheck]:
    """The newest checks, oldest first."""
    rows = tx.connection.execute(_seen(tx).order_by(checks.c.at.desc(), checks.c.id.desc()).limit(limit)).all()
    return [_check(row, project=project_in(row)) for row in reversed(rows)]


def _seen(tx: Transaction) -> Select[Any]:
    columns = (
        *(checks.c.result_uid, checks.c.outcome, checks.c.at, projects.c.key, projects.c.name),
        *(conversations.c.uid.label("conversation_uid"), exchanges.c.uid.label("exchange_uid")),
        func.coalesce(_calls.c.tool_name, "").label("tool_name"),
        *(_calls.c.text.label("call"), messages.c.text.label("printed")),
    )
    return (
        tx.select(*columns)
        .join(messages, same(checks.c.result_uid, messages.c.uid))
        .join(_calls, same(checks.c.call_uid, _calls.c.uid))
        .join(conversations, refers(messages.c.conversation_id, conversations))
        .join(exchanges, refers(messages.c.exchange_id, exchanges))
        .outerjoin(projects, refers(conversations.c.project_id, projects))
        .where(checks.c.outcome.is_not(None))
    )


_shell_result = reader(ShellResult)
_check = reader(SeenCheck, ("project",))
