"""Tests and builds that were seen to run: which message says how each went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Select, Table, Text, and_, exists, insert, select

from harken.model.conversations import ProjectIdentity
from harken.storage.ports import Transaction
from harken.storage.tables import _key, _moment, _tenant, conversations, exchanges, messages, metadata, projects, refers

checks = Table(
    "checks",
    metadata,
    _key(),
    _tenant(),
    Column("result_uid", Text, nullable=False),
    Column("call_uid", Text, nullable=False),
    # NULL where the command checks nothing, or has not told how it went.
    Column("outcome", Text),
    _moment("at"),
)
_calls = messages.alias("calls")


@dataclass(frozen=True, slots=True)
class ShellResult:
    """What a shell command printed, with its call; nobody has looked at it yet."""

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
    """A test or build that ran.

    Attributes:
        outcome: `passed` or `failed`.
        project: of its conversation.
    """

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
    """Results of shell commands that nobody has looked at, oldest first.

    Args:
        tx: the transaction.
        tools: how agents call their shells.
        limit: how many at most.
        since: not those before.
    """
    seen = exists().where(checks.c.tenant == messages.c.tenant, checks.c.result_uid == messages.c.uid)
    statement = (
        select(messages, _calls.c.uid.label("call_uid"), _calls.c.text.label("call"), conversations.c.channel)
        .join(_calls, _of_call())
        .join(conversations, refers(messages.c.conversation_id, conversations))
        .where(messages.c.tenant == tx.tenant, messages.c.type == "tool_result", messages.c.tool_name.in_(tools), ~seen)
        .order_by(messages.c.id)
        .limit(limit)
    )
    if since is not None:
        statement = statement.where(messages.c.created_at >= since)
    return [
        ShellResult(row.uid, row.call_uid, row.channel, row.tool_name, row.call, row.text, row.metadata, row.created_at)
        for row in tx.connection.execute(statement)
    ]


def put_checks(tx: Transaction, looked_at: Sequence[tuple[ShellResult, str | None]]) -> None:
    """Remember how each went, or that it says nothing; another process may have done so already."""
    known = set(
        tx.connection.scalars(
            select(checks.c.result_uid).where(
                checks.c.tenant == tx.tenant, checks.c.result_uid.in_([one.result_uid for one, _ in looked_at])
            )
        )
    )
    rows = {
        one.result_uid: {"tenant": tx.tenant, "call_uid": one.call_uid, "outcome": outcome, "at": one.at}
        for one, outcome in looked_at
        if one.result_uid not in known
    }
    if rows:
        tx.connection.execute(insert(checks), [{"result_uid": uid, **row} for uid, row in rows.items()])


def latest_check(tx: Transaction, project: str, since: datetime) -> SeenCheck | None:
    """The last check of a project behind a moment; of conversations without one where the key is empty."""
    of_project = projects.c.key == project if project else conversations.c.project_id.is_(None)
    statement = _seen(tx).where(of_project, checks.c.at > since).order_by(checks.c.at.desc(), checks.c.id.desc())
    row = tx.connection.execute(statement.limit(1)).first()
    return None if row is None else _check(row)


def all_checks(tx: Transaction, limit: int) -> list[SeenCheck]:
    """The newest checks, oldest first."""
    rows = tx.connection.execute(_seen(tx).order_by(checks.c.at.desc(), checks.c.id.desc()).limit(limit)).all()
    return [_check(row) for row in reversed(rows)]


def _of_call() -> Any:
    return and_(
        _calls.c.tenant == messages.c.tenant,
        _calls.c.conversation_id == messages.c.conversation_id,
        _calls.c.call_id == messages.c.call_id,
        _calls.c.type == "tool_call",
    )


def _seen(tx: Transaction) -> Select[Any]:
    result = and_(messages.c.tenant == checks.c.tenant, messages.c.uid == checks.c.result_uid)
    call = and_(_calls.c.tenant == checks.c.tenant, _calls.c.uid == checks.c.call_uid)
    return (
        select(
            checks.c.result_uid,
            checks.c.outcome,
            checks.c.at,
            conversations.c.uid.label("conversation_uid"),
            exchanges.c.uid.label("exchange_uid"),
            projects.c.key,
            projects.c.name,
            _calls.c.tool_name,
            _calls.c.text.label("call"),
            messages.c.text.label("printed"),
        )
        .join(messages, result)
        .join(_calls, call)
        .join(conversations, refers(messages.c.conversation_id, conversations))
        .join(exchanges, refers(messages.c.exchange_id, exchanges))
        .outerjoin(projects, refers(conversations.c.project_id, projects))
        .where(checks.c.tenant == tx.tenant, checks.c.outcome.is_not(None))
    )


def _check(row: Any) -> SeenCheck:
    project = None if row.key is None else ProjectIdentity(row.key, row.name)
    return SeenCheck(
        row.result_uid, row.outcome, row.at, row.conversation_uid, row.exchange_uid, project,
        row.tool_name or "", row.call, row.printed,
    )  # fmt: skip
