"""A project with a real DuckDB database in it, and actions that run SQL on it."""

import hashlib
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb

from remit.core.ids import Clock, system_clock
from tests.plans.project import Project

DATABASE: Final = "data/shop.duckdb"
CONNECTIONS: Final = {
    "duckdb": {"type": "duckdb", "path": DATABASE},
    "reading": {"type": "duckdb", "path": DATABASE, "read_only": True},
    "memory": {"type": "duckdb"},
    "empty": {"type": "duckdb", "read_only": True},
    "new": {"type": "duckdb", "path": "made/new.duckdb"},
    "server": {"type": "postgresql", "url_variable": "SHOP_URL"},
}
TABLES: Final = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, state VARCHAR, amount INTEGER);
INSERT INTO orders VALUES (1, 'open', 10), (2, 'open', 20), (3, 'done', 30);
CREATE TABLE people (name VARCHAR, password VARCHAR);
INSERT INTO people VALUES ('ann', 'xyzzy-hunter2');
"""


class Shop(Project):
    def __init__(self, folder: Path, clock: Clock = system_clock, **settings: Any) -> None:
        super().__init__(folder, clock, **{"connections": CONNECTIONS, **settings})
        self.database = self.root / DATABASE
        make_database(self.database)
        self.before = self.tree()
        """To compare with."""
        self.work = next((folder / "state").iterdir()) / "work"

    def configure(self, **settings: Any) -> None:
        """From the next time on that the workspace is opened."""
        (self.root / "remit.yaml").write_text(json.dumps({"version": 1, **settings}))

    def rows(self, query: str, path: str = DATABASE) -> list[tuple[Any, ...]]:
        return rows(self.root / path, query)

    def digest(self, path: str = DATABASE) -> str:
        return "sha256:" + hashlib.sha256((self.root / path).read_bytes()).hexdigest()

    def left_over(self) -> list[Path]:
        return sorted(self.work.glob("*")) if self.work.is_dir() else []


def make_database(path: Path, text: str = TABLES) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as database:
        database.execute(text)


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path), read_only=True) as database:
        return database.execute(query).fetchall()


def sql(action_id: str, query: str | None = None, **more: Any) -> dict[str, Any]:
    """What belongs to the operation goes there, all else to the action."""
    operation: dict[str, Any] = {"type": "sql_execute"}
    if query is not None:
        operation["query"] = query
    for name in ("query_file", "parameters", "connection", "expect_results", "save_results_to"):
        if name in more:
            operation[name] = more.pop(name)
    return {"action_id": action_id, "action_type": "SQL_EXECUTE", "operation": operation, **more}


@contextmanager
def held_open(path: Path, *, read_only: bool = False, dirty: bool = False) -> Iterator[None]:
    """By another process, until the block ends. `dirty`: with changes that are not in the file yet."""
    program = f"""
        import duckdb, sys
        database = duckdb.connect({str(path)!r}, read_only={read_only})
        if {dirty}:
            database.execute("SET checkpoint_threshold = '1GB'")
            database.execute("INSERT INTO orders VALUES (77, 'meanwhile', 0)")
        print("ready", flush=True)
        sys.stdin.read()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.communicate()
