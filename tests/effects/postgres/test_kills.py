"""Whoever is killed, whenever: the transaction is committed or it is not, and the server tells which."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
import pytest

from remit.core.errors import EnvironmentFailureError
from remit.plans.engines.postgres import CommitFailedError, PostgresEngine, Transaction
from remit.sandbox.host import SandboxHost
from tests.effects.postgres.postgres_sandbox import ROOT, Shop

LONG: Final = os.environ.get("REMIT_LONG") == "1"
CHANGE: Final = "UPDATE customers SET city = 'Rome'; INSERT INTO log VALUES ('done')"


def is_done(shop: Shop) -> bool:
    rome = shop.ask("SELECT count(*) FROM customers WHERE city = 'Rome'")
    logged = shop.ask("SELECT count(*) FROM log")
    assert (rome, logged) in (([(0,)], [(0,)]), ([(3,)], [(1,)])), "half of a transaction"
    return rome == [(3,)]


def working_children(host: SandboxHost) -> list[int]:
    zygote = host._zygote  # noqa: SLF001 - nobody else knows the process
    assert zygote is not None
    return [child.pid for child in zygote._children.values() if child.user is not None and child.descriptors]  # noqa: SLF001


@pytest.mark.req("PX-28")
def test_a_session_whose_process_is_killed_is_not_committed(shop: Shop) -> None:
    session = shop.begin(CHANGE)
    (pid,) = working_children(shop.host)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(CommitFailedError):
        session.commit()
    session.close()
    assert not is_done(shop)
    assert shop.engine.fate(shop.server, session.result.transaction) == "aborted"
    shop.apply(CHANGE)
    assert is_done(shop)


@contextmanager
def started(shop: Shop, folder: Path) -> Iterator[tuple[subprocess.Popen[str], Transaction]]:
    """Killed at the end of it."""
    command = [sys.executable, "-m", "tests.effects.postgres.lone_session", shop.url, str(folder), CHANGE]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Transaction(**json.loads(process.stdout.readline()))
        finally:
            process.kill()


def say(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


@pytest.mark.req("PX-28")
def test_a_host_that_is_killed_leaves_a_transaction_that_is_not_committed(shop: Shop, tmp_path: Path) -> None:
    with started(shop, tmp_path / "lone") as (_, transaction):
        pass
    assert shop.engine.fate(shop.server, transaction) == "aborted"
    assert not is_done(shop)


@pytest.mark.req("PX-28")
def test_a_host_that_is_killed_while_it_commits_has_committed_or_not_and_the_server_knows(
    shop: Shop, tmp_path: Path
) -> None:
    chance = random.Random(7)  # noqa: S311
    fates = []
    for trial in range(8 if LONG else 3):
        with started(shop, tmp_path / f"lone-{trial}") as (process, transaction):
            say(process, "commit")
            time.sleep(chance.choice([0, 0.001, 0.003, 0.01, 0.03]))
        fates.append(shop.engine.fate(shop.server, transaction))
        assert fates[-1] == ("committed" if is_done(shop) else "aborted")
        assert shop.engine.fate(shop.server, transaction) == fates[-1]  # for good
        shop.ask("UPDATE customers SET city = NULL; DELETE FROM log")
    assert set(fates) <= {"committed", "aborted"}


@pytest.mark.req("PX-28")
def test_a_session_that_was_committed_is_committed(shop: Shop, tmp_path: Path) -> None:
    with started(shop, tmp_path / "lone") as (process, transaction):
        say(process, "commit")
        assert process.stdout is not None
        assert process.stdout.readline() == "committed\n"
    assert is_done(shop)
    assert shop.engine.fate(shop.server, transaction) == "committed"


# --- what the server is asked ----------------------------------------------------------------------------------------


def opened(connection: psycopg.Connection[tuple[str, int]], shop: Shop) -> Transaction:
    row = connection.execute("SELECT pg_current_xact_id()::text, pg_backend_pid()").fetchone()
    assert row is not None
    return Transaction(row[0], row[1], shop.preview("SELECT 1").transaction.database)


@pytest.mark.req("PX-28")
def test_a_transaction_that_is_still_open_is_ended_first(shop: Shop) -> None:
    with psycopg.connect(shop.url) as left_behind:
        transaction = opened(left_behind, shop)
        left_behind.execute("INSERT INTO log VALUES ('left behind')")
        assert shop.engine.fate(shop.server, transaction) == "aborted"
        with pytest.raises(psycopg.OperationalError):
            left_behind.execute("SELECT 1")
    assert shop.ask("SELECT * FROM log") == []


@pytest.mark.req("PX-28")
def test_a_session_that_only_has_the_number_of_an_old_one_is_left_alone(shop: Shop) -> None:
    with psycopg.connect(shop.url) as one, psycopg.connect(shop.url) as other:
        transaction = opened(one, shop)
        row = other.execute("SELECT pg_backend_pid(), pg_current_xact_id()").fetchone()
        assert row is not None
        mistaken = transaction._replace(backend=row[0])
        assert shop.engine.fate(shop.server, mistaken, patience=0.5) == "unknown"
        assert other.execute("SELECT 1").fetchone() == (1,)
        assert one.execute("SELECT 1").fetchone() == (1,)


def test_of_another_database_nothing_is_known(shop: Shop) -> None:
    transaction = shop.apply("INSERT INTO log VALUES ('x')").transaction
    assert shop.engine.fate(shop.server, transaction._replace(database="1/1"), patience=0.5) == "unknown"


@pytest.mark.req("PX-28")
def test_what_a_server_forgot_when_it_died_was_never_committed(shop: Shop) -> None:
    """Its numbers are made to last before they are noted, so one that it has not given out yet committed nothing."""
    with shop.begin(CHANGE) as session:
        ((written,),) = shop.ask("SELECT pg_current_wal_insert_lsn()", url=shop.admin)
        shop.engine.require_durable_commit(shop.server)
        assert shop.ask(f"SELECT pg_current_wal_flush_lsn() >= '{written}'", url=shop.admin) == [(True,)]
        future = session.result.transaction._replace(xid="9999999999")
    assert shop.engine.fate(shop.server, future, patience=0.5) == "aborted"


@pytest.mark.req("PX-28")
def test_a_number_is_not_made_to_last_for_a_transaction_that_is_not_open_any_more(shop: Shop) -> None:
    """A server that died and was started again may give the number to the transaction that makes it last."""
    with shop.begin(CHANGE) as session:
        transaction = session.result.transaction
        shop.engine.require_durable_commit(shop.server, transaction)
    with pytest.raises(EnvironmentFailureError, match="connection to the database server was lost"):
        shop.engine.require_durable_commit(shop.server, transaction)


def test_a_server_that_cannot_be_asked_says_nothing(shop: Shop, tmp_path: Path) -> None:
    transaction = shop.apply("INSERT INTO log VALUES ('x')").transaction
    gone = shop.find(f"postgresql://u@/d?host={tmp_path}")
    engine = PostgresEngine(lambda: shop.host, "task-1", lambda: False)
    assert engine.fate(gone, transaction, patience=0.5) == "unknown"
