"""Migrations: they update a store's tables on request, one transaction for each step.

Each migration is a pair of SQL files in `migrations/`, one for each dialect. Its digest is recorded when it is applied.
A changed file, a gap, or a database that is newer than this program is refused. Both databases have transactional DDL,
so after a crash each migration is either complete or not started.
"""

import re
from contextlib import closing
from dataclasses import dataclass
from importlib import resources

from remit.core.canonical import digest_bytes
from remit.core.errors import EnvironmentFailureError, Reason
from remit.core.faultpoints import reach
from remit.core.ids import Clock, render_time
from remit.store.connection import Connection, Dialect, GuardedTableError, Store

FILE_NAME = re.compile(r"(\d{4})_(\w+)\.(sqlite|postgresql)\.sql")
SEPARATOR = "\n--;;\n"
_MADE: re.Pattern[str] = re.compile(r"CREATE (?:UNIQUE )?(TABLE|INDEX|TRIGGER) (?:IF NOT EXISTS )?(\w+)")
CREATE_HISTORY = """CREATE TABLE IF NOT EXISTS schema_migrations (
  version INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL, applied_at TEXT NOT NULL)"""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    digest: str
    statements: tuple[str, ...]


def shipped_migrations(dialect: Dialect) -> list[Migration]:
    """Return the migrations that this program contains, in order and without a gap."""
    found = []
    for item in resources.files("remit.store").joinpath("migrations").iterdir():
        match = FILE_NAME.fullmatch(item.name)
        if match and match[3] == dialect:
            text = item.read_text("utf-8")
            found.append(Migration(int(match[1]), match[2], digest_bytes(text.encode()), tuple(text.split(SEPARATOR))))
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise AssertionError("migrations must be numbered without a gap")
    return found


def migrate(store: Store, clock: Clock) -> list[str]:
    """Apply the missing migrations and return their names. Safe to run twice, and on two hosts at once."""
    try:
        return _migrate(store, clock)
    except GuardedTableError as problem:
        raise EnvironmentFailureError(
            Reason.STORE_UNAVAILABLE,
            f"this account is not allowed to change the tables: {problem}",
            next_step="Run the command with the account that owns the tables.",
        ) from problem


def foreign_objects(connection: Connection) -> list[str]:
    """List the objects in a SQLite file that no migration makes, by kind and name: a view, a table, a trigger.

    An object with Remit's name and another kind is listed too. On PostgreSQL the schema may hold other objects.
    """
    if connection.dialect != "sqlite":
        return []
    statements = [CREATE_HISTORY, *(one for each in shipped_migrations("sqlite") for one in each.statements)]
    ours = {(match[1].lower(), match[2]) for one in statements for match in _MADE.finditer(one)}
    found = connection.rows("SELECT type, name FROM sqlite_master ORDER BY type, name")
    return [
        f"{kind} {name}" for kind, name in found if (kind, name) not in ours and not _is_sqlite_internal(kind, name)
    ]


def require_no_foreign_objects(connection: Connection) -> None:
    """Refuse a file into which another program has put an object. Remit might read that object instead of its own."""
    found = foreign_objects(connection)
    if found:
        more = f", and {len(found) - 3} more" if len(found) > 3 else ""
        raise EnvironmentFailureError(
            Reason.EVIDENCE_INVALID,
            f"the ledger's database contains objects that Remit did not make: {', '.join(found[:3])}{more}",
            next_step="Keep a copy of the file and check for other changes: remit ledger verify. Then restore a"
            " backup, or remove the named objects with the sqlite3 program.",
        )


def _is_sqlite_internal(kind: str, name: str) -> bool:
    """Return whether SQLite itself made it: the index of a key, or the statistics of ANALYZE."""
    return (kind == "index" and name.startswith("sqlite_autoindex_")) or (kind, name[:11]) == ("table", "sqlite_stat")


def _migrate(store: Store, clock: Clock) -> list[str]:
    applied = []
    shipped = shipped_migrations(store.dialect)
    with closing(store.connect()) as connection:
        require_no_foreign_objects(connection)
        for migration in shipped:
            connection.begin(write=True)
            reach("migration.begun")
            connection.lock_schema()
            connection.script(CREATE_HISTORY)
            recorded = _history(connection)
            _require_kin(shipped, recorded)
            if migration.version not in recorded:
                _apply(connection, migration, clock)
                applied.append(f"{migration.version:04d}_{migration.name}")
            reach("migration.before_commit")
            connection.commit()
            reach("migration.committed")
        require_current(connection)
    return applied


def require_current(connection: Connection) -> None:
    """Refuse a store whose tables are not exactly those that this program needs."""
    shipped = shipped_migrations(connection.dialect)
    recorded = _history(connection)
    _require_kin(shipped, recorded)
    for migration in shipped:
        if migration.version not in recorded:
            require_no_foreign_objects(connection)  # an object with a table's name is no reason to migrate
            raise EnvironmentFailureError(
                Reason.STORE_OUTDATED,
                f"the store lacks migration {migration.version:04d}_{migration.name}",
                next_step="Run `remit migrate`, after a backup.",
            )


def _require_kin(shipped: list[Migration], recorded: dict[int, str]) -> None:
    """Refuse a store with migrations that differ from those of this program, or with more of them."""
    for migration in shipped:
        if recorded.get(migration.version, migration.digest) != migration.digest:
            raise EnvironmentFailureError(
                Reason.STORE_OUTDATED,
                f"migration {migration.version:04d}_{migration.name} differs from the one that built this store",
                next_step="Use the version of Remit that made this store, or restore a backup.",
            )
    if max(recorded, default=0) > len(shipped):
        raise EnvironmentFailureError(
            Reason.STORE_OUTDATED,
            f"the store is newer than this program (it has migration {max(recorded)})",
            next_step="Update Remit on this machine.",
        )


def _apply(connection: Connection, migration: Migration, clock: Clock) -> None:
    for statement in migration.statements:
        connection.script(statement)
        reach("migration.statement")
    connection.execute(
        "INSERT INTO schema_migrations (version, name, digest, applied_at) VALUES (?, ?, ?, ?)",
        (migration.version, migration.name, migration.digest, render_time(clock())),
    )


def _history(connection: Connection) -> dict[int, str]:
    if not connection.has_table("schema_migrations"):
        return {}
    return dict(connection.rows("SELECT version, digest FROM schema_migrations"))
