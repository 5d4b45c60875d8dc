"""A project whose plans change files and a PostgreSQL database, under a role that is nobody special."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import psycopg
from psycopg import sql as psql

from tests.plans.project import Project, plan_of, replace
from tests.plans.sql.shop import sql

VARIABLE: Final = "SHOP_URL"
CONNECTIONS: Final[dict[str, dict[str, object]]] = {
    "shop": {"type": "postgresql", "url_variable": VARIABLE, "preview": "execute"},
    "reading": {"type": "postgresql", "url_variable": VARIABLE, "read_only": True, "preview": "execute"},
    "other": {"type": "postgresql", "url_variable": "OTHER_URL", "preview": "execute"},
}
SECRET: Final = "xyzzy-hunter2"
"""In a row that plans change: it belongs into the kept rows, and nowhere else."""
TABLES: Final = f"""
CREATE TABLE people (id integer PRIMARY KEY, name text NOT NULL, note text);
CREATE TABLE orders
  (id integer PRIMARY KEY, person integer REFERENCES people ON DELETE CASCADE, state text, total numeric);
CREATE TABLE log (line text);
INSERT INTO people VALUES (1, 'Ada', '{SECRET}'), (2, 'Bob', NULL);
INSERT INTO orders VALUES (1, 1, 'open', 10.50), (2, 1, 'done', 20), (3, 2, 'open', 5);
"""
UPDATE: Final = "UPDATE orders SET state = 'paid', total = total + 1 WHERE state = 'open'"
DELETE: Final = "DELETE FROM people WHERE id = 1"
"""With its orders, by the foreign key."""


class Store(Project):
    """`admin` is a URL of an empty database, for one who may do anything."""

    def __init__(self, folder: Path, admin: str, **settings: Any) -> None:
        self.admin = admin
        self.role, self.password = f"remit_{secrets.token_hex(6)}", f"pw-{secrets.token_hex(12)}"
        database = urlsplit(admin).path[1:]
        with psycopg.connect(admin, autocommit=True) as connection:
            role, name = psql.Identifier(self.role), psql.Identifier(database)
            connection.execute(psql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, self.password))
            connection.execute(psql.SQL("GRANT ALL ON DATABASE {} TO {}").format(name, role))
            connection.execute(psql.SQL("ALTER SCHEMA public OWNER TO {}").format(role))
        parts = urlsplit(admin)
        place = parts.netloc.rpartition("@")[2]
        self.url = parts._replace(netloc=f"{self.role}:{self.password}@{place}").geturl()
        self.ask(TABLES)
        super().__init__(folder, **{"connections": CONNECTIONS, **settings})
        self.environ[VARIABLE] = self.url
        self.folder = folder
        for path in ("a.txt", "b.txt"):
            self.write(path)
        self.before = self.world()
        """To compare with."""

    def drop_role(self) -> None:
        self.end_connections()
        with psycopg.connect(self.admin, autocommit=True) as connection:
            role = psql.Identifier(self.role)
            connection.execute(psql.SQL("DROP OWNED BY {} CASCADE").format(role))
            connection.execute(psql.SQL("DROP ROLE {}").format(role))

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def held(self, query: str) -> Iterator[None]:
        """By somebody else, in a transaction that is open until the block ends."""
        with psycopg.connect(self.url) as connection:
            connection.execute(query.encode())
            yield
            connection.rollback()

    def end_connections(self) -> None:
        """Of the role, as an administrator may."""
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (self.role,)
            )

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table, as text."""
        tables = self.ask("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
        return {name: sorted(self.ask(f'SELECT (t.*)::text FROM public."{name}" t')) for (name,) in sorted(tables)}

    def world(self) -> tuple[Any, Any]:
        """All files of the project, and all rows."""
        return self.tree(), self.rows()

    @property
    def where(self) -> str:
        """What people are told of the server."""
        parts = urlsplit(self.url)
        host = parse_qs(parts.query).get("host", [""])[0] or f"{parts.hostname}:{parts.port or 5432}"
        return f"shop at {host}{parts.path} as {self.role}"

    def state(self) -> str:
        """Whether the files and the rows are as before, or both as after: they always agree."""
        files, rows = self.tree() == self.before[0], self.rows() == self.before[1]
        assert files == rows, f"the files are {'' if files else 'not '}as before, the rows {'' if rows else 'not '}so"
        return "before" if files else "after"


def on_shop(action_id: str, query: str | None = None, **more: Any) -> dict[str, Any]:
    return sql(action_id, query, **{"connection": "shop", **more})


def mixed(*more: dict[str, Any], **instructions: Any) -> bytes:
    """Two files, and rows of two tables and of a cascade."""
    actions = (replace("a1", "a.txt"), on_shop("a2", UPDATE), on_shop("a3", DELETE), replace("a4", "b.txt"))
    return plan_of(*actions, *more, **instructions)
