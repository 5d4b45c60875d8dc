"""Least privilege on PostgreSQL: the role that runs Remit may add to the ledgers and read them, nothing else.

The triggers stop everybody who forgets; the owner of a table can drop them. A service that connects with a role made
here is not the owner: it cannot change or remove an entry, and it cannot switch the triggers off.
"""

import re
from typing import Final

from remit.errors import Misuse, Reason
from remit.store.connection import Connection

_PRIVILEGES: Final = {
    "SELECT, INSERT": (
        "ledger_entries",
        "ledger_heads",
        "agent_execution_ledger",
        "agent_execution_confirmation_ledger",
        "agent_execution_access_decision_ledger",
    ),
    "SELECT, INSERT, UPDATE": ("claims",),
    "SELECT, INSERT, UPDATE, DELETE": ("agent_execution_current",),
    "SELECT": ("schema_migrations",),
}
_ROLE_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def grant_runtime_role(connection: Connection, role: str) -> None:
    """Give an existing role what running needs, and take from it all else in this schema. Run it as the owner.

    To be run again after a migration. Limit: what the role inherits from other roles, or owns, is not taken away.
    """
    if connection.dialect != "postgresql":
        raise Misuse(Reason.MISUSE, "SQLite has no roles: whoever can open the file can write to it")
    if not _ROLE_NAME.fullmatch(role):
        raise Misuse(Reason.MISUSE, f"not a plain role name: {role!r}")
    row = connection.one("SELECT current_schema()")
    schema = row[0] if row else ""
    connection.begin(write=True)
    try:
        connection.execute(f'REVOKE ALL ON ALL TABLES IN SCHEMA "{schema}" FROM "{role}"')
        connection.execute(f'REVOKE ALL ON SCHEMA "{schema}" FROM "{role}"')
        connection.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO "{role}"')
        for privileges, tables in _PRIVILEGES.items():
            named = ", ".join(f'"{schema}"."{table}"' for table in tables)
            connection.execute(f'GRANT {privileges} ON {named} TO "{role}"')
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
