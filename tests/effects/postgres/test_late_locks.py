"""No lock is waited for while another one is held, whatever a statement turns out to lock.

The other session holds a lock that a later statement of the plan needs. It then writes to the table that the first
statement changes. Each step is driven by what the server's own table of locks shows, not by time.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg
import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from tests.effects.postgres.postgres_sandbox import Shop

PATIENCE: Final = 120.0
SLOW: Final = "SELECT count(*) FROM generate_series(1, 100000000000)"
A_ROW: Final = "UPDATE customers SET name = name WHERE id = 1"
A_KEY: Final = "UPDATE customers SET id = 1 WHERE id = 1"


class Form(NamedTuple):
    """What is there, what the plan does after it has changed `log`, and what the other session has done before."""

    made: str
    text: str
    before: str


FORMS: Final = {
    "a row": Form("", "UPDATE customers SET city = 'x'", A_ROW),
    "a table that refers": Form("", "CREATE TABLE x (c integer REFERENCES customers)", A_ROW),
    "a foreign key": Form(
        "CREATE TABLE k (c integer)", "ALTER TABLE k ADD FOREIGN KEY (c) REFERENCES customers", A_ROW
    ),
    "truncate cascade": Form(
        "CREATE TABLE p (a integer PRIMARY KEY); CREATE TABLE c (a integer REFERENCES p, b integer); "
        "INSERT INTO c VALUES (NULL, 1)",
        "TRUNCATE p CASCADE",
        "UPDATE c SET b = 2",
    ),
    "drop schema cascade": Form(
        "CREATE SCHEMA s; CREATE TABLE s.a (a integer); INSERT INTO s.a VALUES (1)",
        "DROP SCHEMA s CASCADE",
        "UPDATE s.a SET a = 2",
    ),
    "drop type cascade": Form(
        "CREATE TYPE m AS ENUM ('x'); CREATE TABLE a (a integer, b m); INSERT INTO a VALUES (1)",
        "DROP TYPE m CASCADE",
        "UPDATE a SET a = 2",
    ),
    "drop table cascade": Form("", "DROP TABLE customers CASCADE", "UPDATE orders SET total = 1"),
    "a parent by inheritance": Form(
        "CREATE TABLE par (a integer); CREATE TABLE chi () INHERITS (par); INSERT INTO chi VALUES (1)",
        "ALTER TABLE par ADD COLUMN z integer",
        "UPDATE chi SET a = 2",
    ),
    "a partition": Form(
        "CREATE TABLE par (a integer) PARTITION BY LIST (a); "
        "CREATE TABLE par1 PARTITION OF par FOR VALUES IN (1); INSERT INTO par VALUES (1)",
        "CREATE TABLE par2 PARTITION OF par FOR VALUES IN (2)",
        "UPDATE par SET a = 1",
    ),
    "drop view": Form("CREATE VIEW v AS SELECT * FROM customers", "DROP VIEW v", "SELECT * FROM v"),
    "replace view": Form(
        "CREATE VIEW v AS SELECT * FROM customers",
        "CREATE OR REPLACE VIEW v AS SELECT * FROM customers",
        "SELECT * FROM v",
    ),
    "a view of the plan": Form("", "CREATE VIEW v AS SELECT * FROM customers; UPDATE v SET city = 'x'", A_ROW),
    "a foreign key of the plan": Form(
        "",
        "CREATE TABLE x (id integer); ALTER TABLE x ADD FOREIGN KEY (id) REFERENCES customers; "
        "INSERT INTO x VALUES (1)",
        A_KEY,
    ),
    "a sequence, late": Form(
        "",
        "CREATE TABLE x (a integer DEFAULT nextval('orders_id_seq'), b integer); INSERT INTO x (b) VALUES (1)",
        "SELECT nextval('orders_id_seq')",
    ),
}


def wait_until(holds: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until


@contextmanager
def watching(shop: Shop) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    with psycopg.connect(shop.admin, autocommit=True) as connection:
        yield lambda query: connection.execute(query.encode()).fetchall()


OURS: Final = (
    "pid IN (SELECT pid FROM pg_stat_activity WHERE application_name = 'remit' AND datname = current_database())"
)
HOLDS_LOG: Final = (
    f"SELECT 1 FROM pg_locks WHERE {OURS} AND relation = 'log'::regclass AND granted AND mode LIKE '%ExclusiveLock' "
    "AND mode <> 'RowExclusiveLock'"
)


def run(shop: Shop, how: str, text: str) -> object:
    return shop.preview(text, seconds=PATIENCE) if how == "preview" else shop.apply(text, seconds=PATIENCE)


@pytest.mark.req("PV-05")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["preview", "apply"])
@pytest.mark.parametrize("name", FORMS)
def test_a_writer_that_holds_what_a_later_statement_needs_meets_no_deadlock(shop: Shop, name: str, how: str) -> None:
    form = FORMS[name]
    shop.allow(lock_timeout_seconds=60, preview_timeout_seconds=60)
    shop.ask(f"INSERT INTO log VALUES ('a'); {form.made}")
    text = f"UPDATE log SET line = 'x'; {form.text}"
    with watching(shop) as look, ThreadPoolExecutor(1) as pool, psycopg.connect(shop.url) as other:
        other.execute(form.before.encode())
        running: Future[object] = pool.submit(run, shop, how, text)
        wait_until(
            lambda: running.done() or look(HOLDS_LOG) or look(f"SELECT 1 FROM pg_locks WHERE {OURS} AND NOT granted")
        )
        other.execute("INSERT INTO log VALUES ('w')")  # DeadlockDetected if we wait for this session meanwhile
        other.commit()
        running.result()
    assert ("w",) in shop.ask("SELECT line FROM log") or how == "apply"


@pytest.mark.req("PV-05")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["preview", "apply"])
@pytest.mark.parametrize("name", ["a table that refers", "drop view", "a view of the plan"])
def test_what_is_never_free_is_a_refusal_and_nothing_was_changed(shop: Shop, name: str, how: str) -> None:
    form = FORMS[name]
    shop.allow(lock_timeout_seconds=1)
    shop.ask(f"INSERT INTO log VALUES ('a'); {form.made}")
    before = shop.dump()
    with psycopg.connect(shop.url) as other:
        other.execute(form.before.encode())
        with pytest.raises(EnvironmentFailureError) as busy:
            run(shop, how, f"UPDATE log SET line = 'x'; {form.text}")
        other.rollback()
    assert busy.value.reason is Reason.DATABASE_BUSY
    assert "an approval stays valid" in busy.value.next_step
    assert shop.dump() == before


@pytest.mark.req("PV-05")
@pytest.mark.timeout(300)
def test_a_preview_lets_go_of_its_tables_after_its_time_whatever_its_statements_take(shop: Shop) -> None:
    """Each statement is far below its own limit; all of them together are not."""
    shop.allow(preview_timeout_seconds=1, statement_timeout_seconds=300)
    part = "SELECT count(*) FROM generate_series(1, 300000)"
    text = "UPDATE customers SET city = 'x'; " + "; ".join([part] * 400)
    with pytest.raises(EnvironmentFailureError, match="for 1 seconds, which is its limit") as ended:
        shop.preview(text, seconds=PATIENCE)
    assert ended.value.reason is Reason.TIMED_OUT
    assert "preview_timeout_seconds" in ended.value.next_step
    assert ended.value.where == shop.server.where


@pytest.mark.req("PV-05")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("stop_on_error", [True, False])
def test_one_long_statement_is_ended_by_the_server_and_the_writer_goes_on(shop: Shop, *, stop_on_error: bool) -> None:
    shop.allow(preview_timeout_seconds=1, statement_timeout_seconds=300)
    of_customers = "relation = 'customers'::regclass AND mode = 'ExclusiveLock' AND granted"
    held = f"SELECT 1 FROM pg_locks WHERE {OURS} AND {of_customers}"
    with watching(shop) as look, ThreadPoolExecutor(1) as pool, psycopg.connect(shop.url) as other:
        running = pool.submit(
            shop.preview, "UPDATE customers SET city = 'x'", SLOW, SLOW, seconds=PATIENCE, stop_on_error=stop_on_error
        )
        wait_until(lambda: look(held))
        other.execute(A_ROW)
        other.commit()
        with pytest.raises(EnvironmentFailureError, match="the preview locked tables for 1 seconds"):
            running.result()


@pytest.mark.req("PV-05")
@pytest.mark.timeout(300)
def test_what_only_reads_or_is_approved_has_the_time_of_its_statements(shop: Shop) -> None:
    shop.server = shop.server._replace(preview_seconds=0.0)
    with pytest.raises(EnvironmentFailureError, match="was stopped"):
        shop.preview("UPDATE customers SET city = 'x'")
    assert shop.preview("SELECT city FROM customers").tables == ()
    shop.preview("UPDATE customers SET city = 'x'", in_earnest=True)
    assert shop.apply("UPDATE customers SET city = 'x'").tables == (("public.customers", 0, 3, 0),)
