"""SQL on a PostgreSQL server: one transaction over one connection, in a sandboxed process."""
