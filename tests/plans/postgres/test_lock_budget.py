"""`lock_timeout_seconds` is one time for a whole preview, and one for a whole apply, whatever is tried how often.

What was waited for is read from the server's own log: each wait that it ended, with the limit that was set for it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from remit.core.errors import Reason, RemitError
from tests.plans.postgres.postgres_project import CONNECTIONS, UPDATE, Store, on_shop
from tests.plans.postgres.test_secrets import said
from tests.plans.project import plan_of, ran, refused
from tests.support.postgres_server import OwnServer

SECONDS: Final = 2
AT_ONCE: Final = 1
"""Milliseconds: the least that the server takes, when no time is left."""
TABLE: Final = "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE"
ROWS: Final = "SELECT * FROM orders FOR UPDATE"
SAVE: Final = on_shop("a2", "SELECT count(*) FROM orders", save_results_to="orders.csv")
_LINE: Final = re.compile(r"^\S+ \S+ \S+ \[(?P<process>\d+)\] (?P<kind>\w+):\s+(?P<said>.*)$")
_LIMIT: Final = re.compile(r"lock_timeout(?: = |', |', \$\d+ = |.*\$\d = )'(?P<limit>\d+)ms'")


class Log:
    """Of a server of our own, from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = path.stat().st_size

    def waits(self) -> list[int]:
        """The limits, in milliseconds, of the waits for a lock that the server ended."""
        limits: dict[str, int] = {}
        ended = []
        for line in self._path.read_bytes()[self._start :].decode().splitlines():
            if (found := _LINE.match(line)) is None:
                continue
            if found["kind"] in ("LOG", "DETAIL") and (limit := _LIMIT.search(found["said"])):
                limits[found["process"]] = int(limit["limit"])
            if found["kind"] == "ERROR" and "due to lock timeout" in found["said"]:
                ended.append(limits[found["process"]])
        return ended


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="remit-own-server-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[OwnServer]:
    made = OwnServer(folder)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def store(server: OwnServer, tmp_path: Path) -> Iterator[Store]:
    name = f"budget_{tmp_path.name[-20:]}".lower().replace("-", "_")
    server.ask(f'CREATE DATABASE "{name}"')
    connection = {**CONNECTIONS["shop"], "lock_timeout_seconds": SECONDS}
    made = Store(tmp_path, server.url.replace("/postgres?", f"/{name}?"), connections={"shop": connection})
    server.ask(f"ALTER ROLE \"{made.role}\" SET log_statement = 'all'")
    yield made
    made.close()
    made.drop_role()


def busy(store: Store, how: str, plan: bytes, envelope: bytes) -> str:
    """What is said of a lock that another session holds."""
    if how == "apply":
        code, message = refused(store.workspace.apply(envelope))
        assert code == 2011
        return message
    with pytest.raises(RemitError) as raised:
        store.workspace.preview(plan)
    assert raised.value.reason is Reason.DATABASE_BUSY
    return f"{raised.value}"


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("how", ["preview", "apply"])
@pytest.mark.parametrize("lock", [TABLE, ROWS])
@pytest.mark.parametrize("more", [[], [SAVE]], ids=["alone", "with saved rows"])
def test_all_attempts_share_one_time_and_the_message_is_the_same(
    store: Store, folder: Path, lock: str, how: str, more: list[dict[str, object]]
) -> None:
    plan = plan_of(on_shop("a1", UPDATE), *more)
    envelope = store.approve(plan).canonical()
    log = Log(folder / "log")
    with store.held(lock):
        message = busy(store, how, plan, envelope)
    waits = log.waits()
    assert max(waits) > SECONDS * 500
    assert sum(one for one in waits if one > AT_ONCE) <= SECONDS * 1_000, waits
    assert f"another session holds a lock on public.orders, and did not release it within {SECONDS} seconds" in message
    assert store.where in message
    assert "Nothing was changed, and an approval stays valid" in message
    assert store.world() == store.before
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PV-05")
def test_the_command_line_says_it_too(store: Store) -> None:
    path = store.folder / "plan.json"
    path.write_bytes(plan_of(on_shop("a1", UPDATE)))
    with store.held(TABLE):
        _, output = said(store, "preview", str(path))
    assert "another session holds a lock on public.orders" in " ".join(output.split())
