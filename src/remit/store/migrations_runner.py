"""Bring a store's tables up to date, on request, one transaction a step.

Each migration is a pair of SQL files, one a dialect, in `migrations/`. Its digest is recorded when it is applied; a
changed file, a gap or a newer database than this program is refused. Both databases have transactional DDL, so a crash
leaves each migration either done or not begun.
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
    """What this program knows, in order, without a gap."""
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
    """Apply what is missing; the names of what was applied. Safe to run twice, and by two hosts at once."""
    try:
        return _migrate(store, clock)
    except GuardedTableError as problem:
        raise EnvironmentFailureError(
            Reason.STORE_UNAVAILABLE,
            f"this account may not change the tables: {problem}",
            next_step="Run it with the account that owns them.",
        ) from problem


def foreign_objects(connection: Connection) -> list[str]:
    """What a SQLite file holds that no migration makes, each by its kind and name: a view, a table, a trigger.

    What is of another kind than Remit makes under that name is one of them. On PostgreSQL the schema may hold more.
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
    """Refuse a file into which another program has put something: it may stand in for what Remit reads."""
    found = foreign_objects(connection)
    if found:
        more = f", and {len(found) - 3} more" if len(found) > 3 else ""
        raise EnvironmentFailureError(
            Reason.EVIDENCE_INVALID,
            f"the ledger's database holds what Remit did not make: {', '.join(found[:3])}{more}",
            next_step="Keep a copy of the file and see what else was changed: remit ledger verify. Then restore a"
            " backup, or remove what is named here with the sqlite3 program.",
        )


def _is_sqlite_internal(kind: str, name: str) -> bool:
    """Made by SQLite itself: the index of a key, and the statistics of ANALYZE."""
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
    """Refuse a store whose tables are not exactly the ones this program was written for."""
    shipped = shipped_migrations(connection.dialect)
    recorded = _history(connection)
    _require_kin(shipped, recorded)
    for migration in shipped:
        if migration.version not in recorded:
            require_no_foreign_objects(connection)  # what is in the way of a table is no reason to migrate
            raise EnvironmentFailureError(
                Reason.STORE_OUTDATED,
                f"the store lacks migration {migration.version:04d}_{migration.name}",
                next_step="Run `remit migrate`, after a backup.",
            )


def _require_kin(shipped: list[Migration], recorded: dict[int, str]) -> None:
    """What was applied must be what this program would have applied, and no more than that."""
    for migration in shipped:
        if recorded.get(migration.version, migration.digest) != migration.digest:
            raise EnvironmentFailureError(
                Reason.STORE_OUTDATED,
                f"migration {migration.version:04d}_{migration.name} differs from the one this store was built with",
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
