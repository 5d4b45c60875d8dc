"""Are the triggers that make the tables append-only still there, as shipped, and switched on?"""

import re
from collections.abc import Iterator

from remit.store.connection import Connection
from remit.store.migrate import shipped_migrations

_TRIGGER = re.compile(r"CREATE TRIGGER (\w+)[^;]*? ON (\w+)", re.DOTALL)


def missing_guards(connection: Connection) -> Iterator[tuple[str, str]]:
    """(table, trigger) for each one that was dropped, changed or disabled."""
    present = _present(connection)
    for migration in shipped_migrations(connection.dialect):
        for statement in migration.statements:
            match = _TRIGGER.search(statement)
            if match and not _unchanged(connection, statement, present.get(match[1])):
                yield match[2], match[1]


def _present(connection: Connection) -> dict[str, str]:
    if connection.dialect == "sqlite":
        return dict(connection.rows("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
    return dict(
        connection.rows(
            "SELECT t.tgname, t.tgenabled FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND NOT t.tgisinternal"
        )
    )


def _unchanged(connection: Connection, shipped: str, present: str | None) -> bool:
    if present is None:
        return False
    if connection.dialect == "sqlite":
        return present == shipped[shipped.index("CREATE TRIGGER") :].strip()
    return present in {"O", "A"}
