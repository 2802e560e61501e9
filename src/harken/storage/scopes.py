"""From names that people give to rows: projects, and what a search is limited to."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, bindparam, select

from harken.errors import NotFoundError
from harken.model.conversations import ProjectIdentity, SearchScope
from harken.storage.columns import to_microseconds
from harken.storage.conversations import conversations_named
from harken.storage.ports import RowScope, Transaction, rows_by
from harken.storage.tables import entries, project_aliases, projects, same, segments


def row_scope(tx: Transaction, scope: SearchScope) -> RowScope:
    """The scope with row ids in place of names.

    Raises:
        NotFoundError: it names a project, conversation or segment that is not there, or several; or a segment of
            another conversation.
    """
    conversation_id = None if scope.conversation is None else _conversation_row(tx, scope.conversation)
    segment_id = None
    if scope.segment is not None:
        segment_id, its_conversation = _segment_row(tx, scope.segment)
        if conversation_id not in (None, its_conversation):
            raise NotFoundError(f"Segment {scope.segment} is not of conversation {scope.conversation}.")
        # Named as well because entries are indexed by it.
        conversation_id = its_conversation
    return RowScope(
        sources=scope.sources,
        project_id=None if scope.project is None else project_row(tx, scope.project),
        conversation_id=conversation_id,
        segment_id=segment_id,
        roles=scope.roles,
        since=None if scope.since is None else to_microseconds(scope.since),
        until=None if scope.until is None else to_microseconds(scope.until),
        facets=scope.facets,
        without_sources=present_sources(tx, scope.without_sources),
        without_untrusted=scope.without_untrusted,
    )


def present_sources(tx: Transaction, sources: tuple[str, ...]) -> tuple[str, ...]:
    """Those sources outside of conversations that have entries: others need neither be looked for nor left out."""
    if not sources:
        return ()
    row = tx.dialect.bare_rows(tx.connection, _which_are_there(sources), {"of_tenant": tx.tenant})[0]
    return tuple(source for source, is_there in zip(sources, row, strict=True) if is_there)


@cache
def _which_are_there(sources: tuple[str, ...]) -> Select[Any]:
    """Built once for the same sources: it runs with most searches."""
    apart = select(entries.c.id).where(
        entries.c.tenant == bindparam("of_tenant", type_=Text), entries.c.conversation_id.is_(None)
    )
    there: list[ColumnElement[Any]] = [apart.where(entries.c.source == source).exists() for source in sources]
    return select(*there)


def project_row(tx: Transaction, name: str) -> int:
    """The row of a project by its key, an alias, or its short name where only one has it.

    Raises:
        NotFoundError: no project, or more than one, is called so.
    """
    keys = [name, f"path:{name}", f"name:{name}"]
    by_key = tx.connection.scalar(tx.select(project_aliases.c.project_id).where(project_aliases.c.alias.in_(keys)))
    if by_key is not None:
        return int(by_key)
    named = tx.connection.execute(tx.select(projects.c.id, projects.c.key).where(projects.c.name == name)).all()
    if len(named) > 1:
        keys = [row.key for row in named]
        raise NotFoundError(f"Several projects are called {name}. Name one by its key: {', '.join(keys)}")
    if not named:
        raise NotFoundError(f"There is no project {name}. List them: harken status --projects")
    return int(named[0].id)


def _conversation_row(tx: Transaction, uid: str) -> int:
    rows = conversations_named(tx, uid)
    if len(rows) != 1:
        what = "There is no conversation" if not rows else "Several conversations begin with"
        raise NotFoundError(f"{what} {uid}. Ids are printed by: harken search QUERY")
    return int(rows[0].id)


def _segment_row(tx: Transaction, uid: str) -> tuple[int, int]:
    """The segment's row and its conversation's."""
    for row in rows_by(tx, segments.c.uid, [uid], segments.c.id, segments.c.conversation_id):
        return int(row.id), int(row.conversation_id)
    raise NotFoundError(f"There is no segment {uid}.")


def project_identity(tx: Transaction, row_id: int) -> ProjectIdentity:
    """The project of a row, with every name that it has been found under, in the order in which they came."""
    rows = tx.connection.execute(_PROJECT, {"of_tenant": tx.tenant, "of_project": row_id}).all()
    return ProjectIdentity(
        rows[0].key, rows[0].name, tuple(row.alias for row in rows if row.alias not in (None, row.key))
    )


# Built once: it runs with every memory, experience and value that is shown.
_PROJECT = (
    select(projects.c.key, projects.c.name, project_aliases.c.alias)
    .select_from(projects.outerjoin(project_aliases, same(projects.c.id, project_aliases.c.project_id)))
    .where(projects.c.tenant == bindparam("of_tenant"), projects.c.id == bindparam("of_project"))
    .order_by(project_aliases.c.id)
)


def known_project(tx: Transaction, identity: ProjectIdentity | None) -> int | None:
    """The project's row id, by its key or a name that it had; None for a new one, and for none."""
    if identity is None:
        return None
    row_id: int | None = tx.connection.scalar(tx.select(projects.c.id).where(projects.c.key == identity.key))
    if row_id is None:
        named = project_aliases.c.alias.in_((identity.key, *identity.aliases))
        first = tx.select(project_aliases.c.project_id).where(named).order_by(project_aliases.c.id).limit(1)
        row_id = tx.connection.scalar(first)
    return row_id


def ensure_project(tx: Transaction, identity: ProjectIdentity) -> int:
    """The project's row id, made if it is new; its aliases are remembered."""
    row_id = known_project(tx, identity)
    if row_id is None:
        row = {"tenant": tx.tenant, "key": identity.key, "name": identity.name}
        tx.connection.execute(tx.dialect.upsert(projects, row, ("key",)))
        made = tx.select(projects.c.id).where(projects.c.key == identity.key)
        row_id = int(tx.connection.execute(made).scalar_one())
    keys = (identity.key, *identity.aliases)
    known = set(tx.connection.scalars(tx.select(project_aliases.c.alias).where(project_aliases.c.alias.in_(keys))))
    for key in keys:
        if key not in known:
            alias = {"tenant": tx.tenant, "alias": key, "project_id": row_id}
            tx.connection.execute(tx.dialect.upsert(project_aliases, alias, ("alias",)))
    return row_id


def project_of(tx: Transaction, identity: ProjectIdentity | None) -> tuple[int, str]:
    """The row and the key of a project, made if it is new.

    Raises:
        NotFoundError: there is no identity.
    """
    if identity is None:
        raise NotFoundError("A folder without a path belongs to no project.")
    row_id = ensure_project(tx, identity)
    return row_id, str(tx.connection.execute(tx.select(projects.c.key).where(projects.c.id == row_id)).scalar_one())
