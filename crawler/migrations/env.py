"""Alembic's entry: runs the steps on the connection, in the transaction, that `database.migrate` hands over."""

from alembic import context

from crawler.database import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    # SQLite can change a column only by making the table anew.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
