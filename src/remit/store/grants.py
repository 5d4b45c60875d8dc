"""Least privilege on PostgreSQL: the role that runs Remit may add to the ledgers and read them, and nothing else.

The triggers stop mistakes, but the owner of a table can drop them. A service that connects with a role from this module
is not the owner. It cannot change or remove an entry, and it cannot switch the triggers off.
"""

import re
from typing import Final

from remit.core.errors import Reason, RefusedError
from remit.store.connection import Connection

_PRIVILEGES: Final = {
    "SELECT, INSERT": (
        "ledger_entries",
        "ledger_heads",
        "agent_execution_ledger",
        "agent_execution_confirmation_ledger",
        "agent_execution_access_decision_ledger",
        "browser_tokens",
        "browser_token_revocations",
        "browser_token_uses",
        "agent_documents",
    ),
    "SELECT, INSERT, UPDATE": ("claims", "approvals", "plan_proposals", "proposal_previews", "counted_entries"),
    "SELECT, INSERT, UPDATE, DELETE": ("agent_execution_current", "plan_previews"),
    "SELECT": ("schema_migrations",),
}
_ROLE_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def grant_runtime_role(connection: Connection, role: str) -> None:
    """Grant an existing role the privileges for running, and revoke all others in this schema. Run it as the owner.

    Run it again after a migration. Limit: privileges that the role inherits from other roles, or has as an owner,
    remain.
    """
    if connection.dialect != "postgresql":
        raise RefusedError(
            Reason.ARGUMENT_INVALID,
            "SQLite has no roles: every account that can open the file can write to it",
            next_step="Omit --grant-to, or keep the ledger in PostgreSQL.",
        )
    if not _ROLE_NAME.fullmatch(role):
        raise RefusedError(
            Reason.MALFORMED, f"invalid role name: {role!r}", next_step="Use lower-case letters, digits and _."
        )
    _refuse_mighty(connection, role)
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


def _refuse_mighty(connection: Connection, role: str) -> None:
    """Refuse a superuser, the owner of the tables, or a member of the owner: grants do not limit them."""
    row = connection.one(
        "SELECT r.rolsuper, pg_has_role(r.oid, t.tableowner::regrole, 'MEMBER')"
        " FROM pg_roles r, pg_tables t"
        " WHERE r.rolname = ? AND t.schemaname = current_schema() AND t.tablename = 'ledger_entries'",
        (role,),
    )
    if row is None:
        raise RefusedError(
            Reason.STATE_MISSING, f"there is no role {role}", next_step=f"Create it first: CREATE ROLE {role} LOGIN"
        )
    if row[0] or row[1]:
        raise RefusedError(
            Reason.STATE_UNSAFE,
            f"{role} owns the tables or is a superuser: grants could not keep it from changing old entries",
            next_step="Create a separate role for the service: CREATE ROLE remit_service LOGIN",
        )
