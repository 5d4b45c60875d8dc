"""Runs SQL on a PostgreSQL server, in one transaction over one connection, in a sandboxed process."""
