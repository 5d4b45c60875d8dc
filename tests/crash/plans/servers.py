"""A plan that changes files and rows of a server, stopped: whatever becomes of it, files and rows agree.

The server is one of its own, and is not stopped: only its clients are. The rows are laid out afresh before each run.
"""

import atexit
import os
import secrets
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.crash.plans.plan import Case, PlanScenario
from tests.crash.tasks.laboratory import ScenarioFolders
from tests.support.crash_injection import Acknowledge
from tests.support.postgres_server import shared_server_url, stop_server

VARIABLE: Final = "REMIT_CRASH_SHOP_URL"
SETTINGS: Final = {"connections": {"shop": {"type": "postgresql", "preview": "execute", "url_variable": VARIABLE}}}
STATEMENTS: Final = (
    "UPDATE orders SET total = total + 1 WHERE state = 'open'",
    "DELETE FROM orders WHERE state = 'done'",
)

_TABLES: Final = """
DROP TABLE IF EXISTS orders;
CREATE TABLE orders (id integer PRIMARY KEY, state text, total integer);
INSERT INTO orders SELECT n, CASE WHEN n % 2 = 0 THEN 'open' ELSE 'done' END, n FROM generate_series(1, 200) n;
"""
_LOOK: Final = "SELECT count(*), sum(total) FROM orders"
_ROWS: Final = {"before": (200, 20_100), "after": (100, 10_200)}


class OnServer(PlanScenario):
    """Each method runs in a process of its own, and all of them know the server by the environment."""

    def __init__(self, name: str, case: Case) -> None:
        super().__init__(name, case)
        if VARIABLE not in os.environ:
            os.environ[VARIABLE] = _own_server()

    def seed(self, folders: ScenarioFolders) -> None:
        _ask(_TABLES)
        super().seed(folders)

    def work(self, folders: ScenarioFolders, acknowledge: Acknowledge) -> None:
        _ask(_TABLES)
        super().work(folders, acknowledge)

    def keep_elsewhere(self) -> None:
        _wait_until_alone()
        _ask("DROP TABLE IF EXISTS kept; CREATE TABLE kept AS TABLE orders;")

    def bring_back_elsewhere(self) -> None:
        _wait_until_alone()
        _ask("BEGIN; DELETE FROM orders; INSERT INTO orders TABLE kept; COMMIT;")

    def judge(self, folders: ScenarioFolders, acknowledged: Sequence[str]) -> list[str]:
        due = "before" if not self.differences(folders, "before", "recovered") else "after"
        wrong = _misplaced(due, "recovered")
        wrong += super().judge(folders, acknowledged)
        return wrong + _misplaced("before", "taken back at last")


def _misplaced(due: str, said: str) -> list[str]:
    found = _ask(_LOOK)
    return [] if found == _ROWS[due] else [f"{said}, the files are as {due}, and the rows are {found}"]


def _wait_until_alone() -> None:
    """The server notices a moment later that a client was killed; until then its transaction is in progress."""
    others = "SELECT count(*), 0 FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid()"
    deadline = time.monotonic() + 30
    while _ask(others) != (0, 0):
        if time.monotonic() > deadline:
            raise RuntimeError("a client of the server that was killed is still there")
        time.sleep(0.02)


def _ask(query: str) -> tuple[int, int] | None:
    import psycopg  # noqa: PLC0415 - what is forked to be stopped is to be small

    with psycopg.connect(os.environ[VARIABLE], autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        found = cursor.fetchone() if cursor.description else None
        return None if found is None else (int(found[0]), int(found[1]))


def _own_server() -> str:
    """The URL of a role that is nobody special, on a server that ends with this process."""
    import psycopg  # noqa: PLC0415 - as above

    directory = Path(tempfile.mkdtemp(prefix="remit-crash-server-"))
    directory.chmod(0o755)
    admin = shared_server_url(directory, os.getpid())
    owner = os.getpid()
    atexit.register(lambda: stop_server(directory) if os.getpid() == owner else None)
    password = secrets.token_hex(8)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE crash LOGIN PASSWORD '{password}'".encode())
        connection.execute(b"CREATE DATABASE crash OWNER crash")
    return f"postgresql://crash:{password}@/crash?host={directory}"
