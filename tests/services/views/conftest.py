"""A served workspace whose plans run a pipeline, SQL on DuckDB, and SQL on a PostgreSQL server that logs everything.

What was executed is seen from outside: the server's own log, and each process that the sandbox hands out.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import psycopg
import pytest

from remit.sandbox.host import SandboxHost
from tests.plans.pipelines.pipeline_project import FILES, PIPELINES, pipeline
from tests.plans.postgres.postgres_project import VARIABLE, on_shop
from tests.plans.project import plan_of, replace
from tests.plans.sql.shop import DATABASE, make_database, sql
from tests.support.postgres_server import OwnServer
from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.web_server import WebSite

__all__ = ["zygotes_are_shared"]

ROLE = "remit_views"
CONNECTIONS = {
    "shop": {"type": "postgresql", "url_variable": VARIABLE, "preview": "execute"},
    "local": {"type": "duckdb", "path": DATABASE},
}
TABLES = """
CREATE TABLE orders (id integer PRIMARY KEY, state text, total numeric);
INSERT INTO orders SELECT n, 'open', n FROM generate_series(1, 50) AS n;
"""


class LoggingServer:
    """The PostgreSQL server, and what it has logged of the role that Remit connects as."""

    def __init__(self, server: OwnServer, folder: Path) -> None:
        self.admin = server.url.replace("/postgres?", "/shop?")
        self.url = self.admin.replace("postgres@", f"{ROLE}@")
        self._log = folder / "log"
        for query in (
            "ALTER SYSTEM SET log_statement = 'all'",
            "ALTER SYSTEM SET log_connections = on",
            "ALTER SYSTEM SET log_line_prefix = 'user=%u '",
            "SELECT pg_reload_conf()",
            f"CREATE ROLE {ROLE} LOGIN",
            f"CREATE DATABASE shop OWNER {ROLE}",
        ):
            server.ask(query)
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(TABLES.encode())

    def read_log(self) -> list[str]:
        """Every line of the log that is about Remit's role: connections, statements, errors."""
        return [line for line in self._log.read_text().splitlines() if ROLE in line]


class SandboxCounter:
    """How often a process was handed out to run something in. Counts, and changes nothing."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self._lock = Lock()
        self.count = 0
        take = SandboxHost._claim_child  # noqa: SLF001 - every process that runs anything comes from here

        def counted(host: SandboxHost, *given: Any) -> Any:
            with self._lock:
                self.count += 1
            return take(host, *given)

        patched.setattr(SandboxHost, "_claim_child", counted)


class ViewedSite:
    """A site with a plan that runs something on every engine."""

    def __init__(self, folder: Path, server: LoggingServer, sandboxes: SandboxCounter) -> None:
        self.server, self.sandboxes = server, sandboxes
        settings = {
            "connections": CONNECTIONS,
            "pipelines": {"report": PIPELINES["report"]},
            "pipeline_packages": ["etl"],
        }
        self.site = WebSite(folder, **settings)
        self.root = self.site.project.root
        self.site.project.environ[VARIABLE] = server.url
        make_database(self.root / DATABASE)
        for path, content in FILES.items():
            self.site.project.write(path, content)

    def close(self) -> None:
        self.site.close()

    def plan(self, name: str) -> bytes:
        self.site.project.write(f"{name}.txt")
        return plan_of(
            replace("file", f"{name}.txt"),
            on_shop("server", "UPDATE orders SET total = total + 1 WHERE state = 'open'"),
            sql("local", "UPDATE orders SET amount = amount + 1", connection="local"),
            pipeline("run", "report"),
            plan_id=f"plan-{name}",
        )

    def executed(self) -> tuple[list[str], int]:
        """All that was executed so far, on the server and in sandboxes."""
        return self.server.read_log(), self.sandboxes.count


@pytest.fixture(scope="module")
def server() -> Iterator[LoggingServer]:
    with TemporaryDirectory(prefix="remit-watched-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        own = OwnServer(folder)
        own.start()
        yield LoggingServer(own, folder)
        own.stop()


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory, server: LoggingServer) -> Iterator[ViewedSite]:
    with pytest.MonkeyPatch.context() as patched:
        made = ViewedSite(tmp_path_factory.mktemp("viewed"), server, SandboxCounter(patched))
        yield made
        made.close()
