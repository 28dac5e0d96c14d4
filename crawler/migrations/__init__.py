"""The steps from an empty database to the tables of `crawler.database`, for Alembic; run by `database.migrate`."""
