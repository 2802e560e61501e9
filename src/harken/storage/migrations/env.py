"""Alembic's entry: runs on the connection that `upgrade` was given, inside its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None, transactional_ddl=False)
context.run_migrations()
