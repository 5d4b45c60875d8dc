"""A database of one's own with a role that owns it, the real sandbox, and an engine for both."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from remit.contracts.config.config import PostgresqlConnection
from remit.plans.engines.database_files import WorkFolder
from remit.plans.engines.postgres import BUILD, EFFECT, OpenTransaction, PostgresEngine, PostgresResult, SqlText
from remit.plans.engines.postgres_servers import PostgresServer, find_server
from remit.sandbox.host import SandboxHost
from remit.sandbox.orders import Build, Quotas

PROBE: Final = "tests.effects.postgres.probe:PROBE"
ROOT: Final = Path(__file__).resolve().parents[3]
PACKAGES: Final = str(Path(psycopg.__file__).resolve().parents[1])
MIB: Final = 1 << 20
QUOTAS: Final = Quotas(memory_bytes=512 * MIB, read_bytes=1024 * MIB, write_bytes=256 * MIB, seconds=30.0)

TABLES: Final = """
CREATE TABLE customers (id integer PRIMARY KEY, name text NOT NULL, city text);
CREATE TABLE orders (
  id serial PRIMARY KEY, customer integer REFERENCES customers ON DELETE CASCADE, total numeric(10,2));
CREATE TABLE log (line text);
INSERT INTO customers VALUES (1, 'Ada', 'London'), (2, 'Bob', 'Paris'), (3, 'Cleo', NULL);
INSERT INTO orders (customer, total) VALUES (1, 10.50), (1, 20), (2, 5);
"""


def make_host(folder: Path, quotas: Quotas = QUOTAS, *, confined: bool = True, build: Build = BUILD) -> SandboxHost:
    return SandboxHost(
        [EFFECT, PROBE],
        quotas,
        confined=confined,
        lock=folder / "hosts" / "this.lock",
        import_paths=[str(ROOT), PACKAGES],
        build=build,
    )


class Shop:
    """`url` is for the role that plans have; `admin` is for the tests to look."""

    def __init__(self, root: Path, host: SandboxHost, admin: str, *, tables: str = TABLES) -> None:
        self.root = root
        self.admin = admin
        self.role = f"remit_{secrets.token_hex(6)}"
        self.password = secrets.token_hex(12)
        database = urlsplit(admin).path[1:]
        with psycopg.connect(admin, autocommit=True) as connection:
            role, name = sql.Identifier(self.role), sql.Identifier(database)
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, self.password))
            connection.execute(sql.SQL("GRANT ALL ON DATABASE {} TO {}").format(name, role))
            connection.execute(sql.SQL("ALTER SCHEMA public OWNER TO {}").format(role))
        parts = urlsplit(admin)
        host_and_port = parts.netloc.rpartition("@")[2]
        self.url = parts._replace(netloc=f"{self.role}:{self.password}@{host_and_port}").geturl()
        self.ask(tables)
        self.host = host
        self.server = self.find(self.url)
        self.engine = PostgresEngine(lambda: host, "task-1", lambda: False)
        self.folder = WorkFolder.make(root / "work")

    def drop_role(self) -> None:
        self.folder.close()
        with psycopg.connect(self.admin, autocommit=True) as connection:
            role = sql.Identifier(self.role)
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (self.role,)
            )
            connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))

    def find(self, url: str, **more: Any) -> PostgresServer:
        connection = PostgresqlConnection(type="postgresql", url_variable="SHOP_URL", **more)
        return find_server("shop", connection, {"SHOP_URL": url})

    def allow(self, *functions: str, **more: Any) -> None:
        """Name functions of the database for the connection, as a person would in remit.yaml."""
        self.server = self.find(self.url, functions=functions, **more)

    def ask(self, query: str, *, url: str | None = None) -> list[tuple[Any, ...]]:
        with psycopg.connect(url or self.url, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def connected(self, url: str | None = None) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(url or self.url, autocommit=False) as connection:
            yield connection

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table, as text."""
        tables = self.ask("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
        return {name: sorted(self.ask(f'SELECT (t.*)::text FROM public."{name}" t')) for (name,) in sorted(tables)}

    def text(self, text: str, number: int = 1, /, **more: Any) -> SqlText:
        fields: dict[str, Any] = {
            "name": "",
            "parameters": {},
            "expect_results": False,
            "results": None,
            "form": None,
            **more,
        }
        return SqlText(number=number, text=text.encode(), **fields)

    def preview(self, *texts: SqlText | str, **more: Any) -> PostgresResult:
        options = {"reads_only": False, "seconds": 20.0, "stop_on_error": True, **more}
        return self.engine.preview(self.server, self._texts(texts), folder=self.folder, **options)

    def explain(self, *texts: SqlText | str, **more: Any) -> PostgresResult:
        options = {"reads_only": False, "seconds": 20.0, **more}
        return self.engine.explain(self.server, self._texts(texts), folder=self.folder, **options)

    def tried(self, *texts: SqlText | str, **more: Any) -> PostgresResult:
        """As an apply runs them, and rolled back. A preview would not run all statements."""
        with self.begin(*texts, **more) as session:
            return session.result

    def begin(self, *texts: SqlText | str, **more: Any) -> OpenTransaction:
        options = {"reads_only": False, "seconds": 20.0, **more}
        return self.engine.begin(self.server, self._texts(texts), folder=self.folder, **options)

    def apply(self, *texts: SqlText | str, **more: Any) -> PostgresResult:
        with self.begin(*texts, **more) as session:
            session.commit()
            return session.result

    def undo(self, images: int, *, force: bool = False) -> None:
        with self.engine.begin_undo(self.server, images, force=force, seconds=20.0) as session:
            session.commit()

    def _texts(self, texts: Sequence[SqlText | str]) -> list[SqlText]:
        return [self.text(one, place) if isinstance(one, str) else one for place, one in enumerate(texts)]
