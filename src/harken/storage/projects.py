"""Projects as rows: found by key, alias or name, and made with the first record that names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from sqlalchemy import Select, Text, bindparam, literal_column, select

from harken.errors import NotFoundError
from harken.model.conversations import ProjectIdentity
from harken.storage.ports import AMONG, Dialect, Question, Readable, RowScope, Transaction, bare_by
from harken.storage.tables import conversations, metadata, project_aliases, projects, same


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
        several = ", ".join(row.key for row in named)
        raise NotFoundError(f"Several projects are called {name}. Name one by its key: {several}")
    if not named:
        raise NotFoundError(f"There is no project {name}. List them: harken status --projects")
    return int(named[0].id)


def project_identity(tx: Transaction, row_id: int) -> ProjectIdentity:
    """The project of a row, with every name that it has been found under, in the order in which they came."""
    rows = tx.connection.execute(_PROJECT, {"of_tenant": tx.tenant, "of_project": row_id}).all()
    aliases = tuple(row.alias for row in rows if row.alias not in (None, row.key))
    return ProjectIdentity(rows[0].key, rows[0].name, aliases)


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
    asked = {"of_tenant": tx.tenant, "of_key": identity.key}
    rows = tx.dialect.bare_rows(tx.connection, _BY_KEY, asked)
    if not rows:
        names = tx.dialect.listing([identity.key, *identity.aliases])
        rows = tx.dialect.bare_rows(tx.connection, _by_alias(tx.dialect), {"of_tenant": tx.tenant, AMONG: names})
    return int(rows[0][0]) if rows else None


# Both made once: they run with every context.
_BY_KEY = select(projects.c.id).where(
    projects.c.tenant == bindparam("of_tenant"), projects.c.key == bindparam("of_key", type_=Text)
)


@cache
def _by_alias(dialect: Dialect) -> Select[Any]:
    named = project_aliases.c.tenant == bindparam("of_tenant"), dialect.among(project_aliases.c.alias)
    return select(project_aliases.c.project_id).where(*named).order_by(project_aliases.c.id).limit(literal_column("1"))


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
    for key in (key for key in keys if key not in known):
        alias = {"tenant": tx.tenant, "alias": key, "project_id": row_id}
        tx.connection.execute(tx.dialect.upsert(project_aliases, alias, ("alias",)))
    return row_id


def drop_unused(tx: Transaction, row_ids: set[int]) -> None:
    """Remove those projects to which nothing belongs any more, with every name that they were found under.

    Not on a server, where somebody else may be recording under one at this moment.
    """
    if tx.dialect.is_remote:
        return
    labels = tx.select(conversations.c.label).where(conversations.c.label.is_not(None))
    left = row_ids and row_ids - {label.get("own_project_id") for label in tx.connection.scalars(labels)}
    for of in (each.c.project_id for each in metadata.tables.values() if "project_id" in each.c):
        if left and of.table is not project_aliases:
            left -= set(tx.connection.scalars(tx.select(of).where(of.in_(left)).distinct()))
    for column in (project_aliases.c.project_id, projects.c.id) if left else ():
        tx.delete(column.table, column.in_(left))


def project_of(tx: Transaction, identity: ProjectIdentity | None) -> tuple[int, str]:
    """The row and the key of a project, made if it is new.

    Raises:
        NotFoundError: there is no identity.
    """
    if identity is None:
        raise NotFoundError("A folder without a path belongs to no project.")
    row_id = ensure_project(tx, identity)
    return row_id, str(tx.connection.execute(tx.select(projects.c.key).where(projects.c.id == row_id)).scalar_one())


PREFER, ALL = "prefer", "all"


@dataclass(frozen=True, slots=True)
class ProjectScope:
    """Which projects recall sees from the one at hand: its own and what belongs to none, and of others what it may.

    Attributes:
        mode: as `rag.scope` has it; `all` where no project is at hand to be preferred.
        own: rows of the project at hand.
        others: rows of all others, each with its key.
        names: every key that the project at hand was found under.
    """

    mode: str = ALL
    own: frozenset[int] = frozenset()
    others: Mapping[int, str] = field(default_factory=dict)
    names: frozenset[str] = frozenset()

    @property
    def prefers(self) -> bool:
        """Whether others come behind its own, and only where they are nearer by a margin."""
        return self.mode == PREFER and bool(self.others)

    def inside(self, rows: RowScope) -> RowScope:
        """The scope without others; one that names a project or a conversation is as it was asked for."""
        if self.mode == ALL or not self.others or rows.project_id is not None or rows.is_narrow:
            return rows
        return replace(rows, without_project_ids=tuple(self.others))

    def is_other(self, key: str | None) -> bool:
        """Whether a project, by its key, is one that comes behind; what belongs to none is not."""
        return self.prefers and key in self.others.values()


EVERY_PROJECT = ProjectScope()


def projects_like(store: Readable, seen: ProjectScope) -> ProjectScope:
    """What is seen of another store's projects from the one at hand in this one."""
    if seen.mode == ALL:
        return EVERY_PROJECT
    with store.reading() as tx:
        rows = all_projects(tx)
        own = {row[0] for row in bare_by(tx, project_aliases.c.alias, seen.names, project_aliases.c.project_id)}
    own |= {row for row, key in rows.items() if key in seen.names}
    return replace(seen, own=frozenset(own), others={row: key for row, key in rows.items() if row not in own})


def all_projects(tx: Transaction) -> dict[int, str]:
    """The key of every project, by its row."""
    return {row[0]: row[1] for row in tx.dialect.bare_rows(tx.connection, *projects_question(tx))}


def projects_question(tx: Transaction) -> Question:
    """What `all_projects` asks."""
    return _KEYS, {"of_tenant": tx.tenant}


# Made once: it runs for every context.
_KEYS = select(projects.c.id, projects.c.key).where(projects.c.tenant == bindparam("of_tenant"))
