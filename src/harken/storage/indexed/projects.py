"""The project that indexed things are of."""

from __future__ import annotations

from sqlalchemy import select

from harken.errors import NotFoundError
from harken.model import ProjectIdentity
from harken.storage.scopes import ensure_project
from harken.storage.store import Transaction
from harken.storage.tables import project_aliases, projects


def project_of(tx: Transaction, identity: ProjectIdentity | None) -> tuple[int, str]:
    """The row and the key of a project, made if it is new.

    Raises:
        NotFoundError: there is no identity.
    """
    if identity is None:
        raise NotFoundError("A folder without a path belongs to no project.")
    project_id = ensure_project(tx, identity)
    return project_id, key_of(tx, project_id)


def known_project(tx: Transaction, identity: ProjectIdentity | None) -> int | None:
    """The row of a project; None where nothing is known of it."""
    if identity is None:
        return None
    named = project_aliases.c.alias.in_((identity.key, *identity.aliases))
    statement = select(project_aliases.c.project_id).where(project_aliases.c.tenant == tx.tenant, named)
    return tx.connection.scalar(
        statement.order_by(project_aliases.c.alias != identity.key, project_aliases.c.id).limit(1)
    )


def key_of(tx: Transaction, project_id: int) -> str:
    """The key of a project."""
    statement = select(projects.c.key).where(projects.c.tenant == tx.tenant, projects.c.id == project_id)
    return str(tx.connection.execute(statement).scalar_one())
