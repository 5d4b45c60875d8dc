"""Locks are taken before the first statement, so a preview or an apply and writers of rows never wait for each other.

The writers are real sessions that change rows the whole time, in one order of the tables and in the other.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import psycopg
import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.plans.engines.postgres_servers import LockBudget
from tests.effects.postgres.postgres_sandbox import Shop
from tests.support.patience import SOON

PAUSE: Final = 0.05
LOCK_SECONDS: Final = 5
BOTH: Final = "UPDATE customers SET city = city || 'x'; UPDATE orders SET total = total + 1"
BACKWARDS: Final = "UPDATE orders SET total = total + 1; UPDATE customers SET city = 'y'"
WRITES: Final = (
    ("UPDATE customers SET name = name WHERE id = 1", "UPDATE orders SET total = total WHERE id = 1"),
    ("UPDATE orders SET total = total WHERE id = 2", "UPDATE customers SET name = name WHERE id = 2"),
    ("SELECT * FROM customers", "UPDATE customers SET name = name WHERE id = 3", "SELECT * FROM orders"),
    ("SELECT * FROM orders WHERE id = 3 FOR UPDATE", "UPDATE orders SET total = total WHERE id = 3"),
    ("SELECT nextval('orders_id_seq')", "INSERT INTO orders (customer, total) VALUES (3, 1)", "DELETE FROM log"),
)
"""Alone they are in nobody's way: each has rows of its own."""


class Writers:
    """What went wrong for them, and how long the longest of their statements took."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.rounds = 0
        self.longest = 0.0


@contextmanager
def writing(shop: Shop) -> Iterator[Writers]:
    """Sessions that write every 50 ms, until the block ends."""
    writers = Writers()
    stop = threading.Event()

    def write(statements: tuple[str, ...]) -> None:
        with psycopg.connect(shop.url) as connection:
            while not stop.is_set():
                try:
                    for statement in statements:
                        began = time.monotonic()
                        connection.execute(statement.encode())
                        writers.longest = max(writers.longest, time.monotonic() - began)
                    connection.commit()
                    writers.rounds += 1
                except psycopg.Error as problem:
                    writers.problems.append(f"{type(problem).__name__}: {statements}")
                    connection.rollback()
                stop.wait(PAUSE)

    with ThreadPoolExecutor(len(WRITES)) as pool:
        running = [pool.submit(write, statements) for statements in WRITES]
        try:
            yield writers
        finally:
            stop.set()
        for one in running:
            one.result()


@pytest.mark.req("PV-05")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "text", [BOTH, BACKWARDS, "DELETE FROM customers WHERE id = 1", "INSERT INTO orders (customer) VALUES (2)"]
)
@pytest.mark.parametrize("how", ["preview", "preview in earnest", "apply"])
def test_writers_of_rows_meet_no_deadlock_and_do_not_wait_past_the_limit(shop: Shop, text: str, how: str) -> None:
    shop.allow(lock_timeout_seconds=LOCK_SECONDS)

    def apply() -> None:
        with shop.begin(text) as session:
            session.commit()

    run: Callable[[], object] = {
        "preview": lambda: shop.preview(text),
        "preview in earnest": lambda: shop.preview(text, in_earnest=True),
        "apply": apply,
    }[how]
    with writing(shop) as writers:
        for _ in range(6):
            run()
    assert writers.problems == [] or (how == "apply" and all("ForeignKey" in one for one in writers.problems))
    assert writers.rounds > 4
    assert writers.longest < LOCK_SECONDS


@pytest.mark.req("PV-05")
@pytest.mark.timeout(300)
def test_two_plans_on_the_same_tables_in_opposite_order_both_get_their_turn(shop: Shop) -> None:
    shop.allow(lock_timeout_seconds=60)
    problems: list[RemitError] = []

    def several(text: str, *, applies: bool) -> None:
        for _ in range(4):
            try:
                if applies:
                    shop.apply(text, seconds=120.0)
                else:
                    shop.preview(text, seconds=120.0)
            except RemitError as problem:
                problems.append(problem)

    with ThreadPoolExecutor(4) as pool, writing(shop) as writers:
        running = [
            pool.submit(several, text, applies=applies) for text in (BOTH, BACKWARDS) for applies in (False, True)
        ]
        for one in running:
            one.result()
    assert problems == []
    assert writers.problems == []


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("apply", [False, True])
def test_a_lock_that_is_not_had_in_time_is_a_refusal_that_names_the_table(shop: Shop, *, apply: bool) -> None:
    shop.allow(lock_timeout_seconds=1)
    before = shop.dump()
    with shop.connected() as other:
        other.execute("UPDATE orders SET total = 0 WHERE id = 3")
        began = time.monotonic()
        with pytest.raises(EnvironmentFailureError) as busy:
            shop.begin(BOTH) if apply else shop.preview(BOTH)
        assert time.monotonic() - began > 0.9
        assert busy.value.reason is Reason.DATABASE_BUSY
        assert "public.orders" in busy.value.what
        assert "within 1 seconds" in busy.value.what
        assert busy.value.where == shop.server.where
        assert "an approval stays valid" in busy.value.next_step
        other.rollback()
    assert shop.dump() == before
    assert shop.preview(BOTH).tables == (("public.customers", 0, 3, 0), ("public.orders", 0, 3, 0))


@pytest.mark.req("PV-05")
def test_nothing_is_held_while_another_session_is_waited_for(shop: Shop) -> None:
    """A writer who holds one table gets the other one, although we wait for the first."""
    with shop.connected() as other, ThreadPoolExecutor(1) as pool:
        other.execute("UPDATE orders SET total = 0 WHERE id = 3")
        waiting = pool.submit(shop.preview, BOTH)
        until = time.monotonic() + 60
        while not shop.ask("SELECT 1 FROM pg_locks WHERE NOT granted", url=shop.admin):
            assert time.monotonic() < until
            assert not waiting.done()
        for _ in range(20):
            other.execute("UPDATE customers SET name = name")
        other.commit()
        assert waiting.result().tables == (("public.customers", 0, 3, 0), ("public.orders", 0, 3, 0))


@pytest.mark.req("PV-05")
def test_what_a_preview_waited_is_taken_from_the_time_of_what_follows(shop: Shop) -> None:
    server = shop.server = shop.server._replace(locks=LockBudget())
    assert server.lock_seconds_left == server.lock_seconds
    with shop.connected() as other, ThreadPoolExecutor(1) as pool:
        other.execute("UPDATE orders SET total = 0 WHERE id = 3")
        waiting = pool.submit(shop.preview, BOTH)
        until = time.monotonic() + 60
        while not shop.ask("SELECT 1 FROM pg_locks WHERE NOT granted", url=shop.admin):
            assert time.monotonic() < until
            assert not waiting.done()
        other.commit()
        waiting.result()
    assert 0 < server.lock_seconds_left < server.lock_seconds


@pytest.mark.req("PV-05")
def test_a_preview_lets_others_read_and_write_other_tables(shop: Shop) -> None:
    """Only the tables that it writes to are locked, and only against writers."""
    shop.ask("CREATE TABLE slow (id integer PRIMARY KEY, n bigint); INSERT INTO slow VALUES (1, 0)")
    endless = "UPDATE slow SET n = (SELECT count(*) FROM generate_series(1, 100000000000))"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(shop.preview, endless, seconds=20.0)
        until = time.monotonic() + 60
        held = "SELECT 1 FROM pg_locks WHERE relation = 'slow'::regclass AND mode = 'ExclusiveLock' AND granted"
        while not shop.ask(held):
            assert time.monotonic() < until
        with psycopg.connect(shop.url) as other:
            other.execute("SET lock_timeout = '100ms'")
            assert other.execute("SELECT n FROM slow").fetchall() == [(0,)]
            other.execute("UPDATE customers SET city = 'x'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("UPDATE slow SET n = 1")
        shop.ask(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{shop.role}'", url=shop.admin
        )
        with pytest.raises(RemitError):
            running.result()


@pytest.mark.req("PV-05")
def test_the_time_of_a_statement_is_the_smaller_of_the_two(shop: Shop) -> None:
    shop.allow(statement_timeout_seconds=1)
    began = time.monotonic()
    with pytest.raises(EnvironmentFailureError, match="longer than 1 seconds") as failed:
        shop.preview("SELECT count(*) FROM generate_series(1, 100000000000)", seconds=60.0)
    assert time.monotonic() - began < SOON, "the server ended the statement, not the sandbox the process"
    assert failed.value.reason is Reason.TIMED_OUT
    assert "statement_timeout_seconds" in failed.value.next_step
    shop.allow(statement_timeout_seconds=300)
    with pytest.raises(EnvironmentFailureError, match="longer than 1 seconds"):
        shop.preview("SELECT count(*) FROM generate_series(1, 100000000000)", seconds=1.0)


@pytest.mark.req("PV-05")
def test_a_table_that_only_a_named_function_changes_is_locked_in_a_second_attempt(shop: Shop) -> None:
    shop.ask("CREATE FUNCTION hidden() RETURNS integer LANGUAGE sql AS $$ UPDATE customers SET city = 'h'; SELECT 1 $$")
    shop.allow("public.hidden")
    held = (
        "SELECT mode FROM pg_locks WHERE relation = 'customers'::regclass AND mode = 'AccessExclusiveLock' AND granted"
    )
    with shop.begin("SELECT hidden()") as session:
        assert session.result.images is not None
        assert shop.ask(held) == [("AccessExclusiveLock",)]


@pytest.mark.req("PV-05")
def test_rows_are_locked_before_an_undo_restores_them_too(shop: Shop) -> None:
    done = shop.apply(BOTH)
    assert done.images is not None
    shop.allow(lock_timeout_seconds=1)
    with shop.connected() as other:
        other.execute("SELECT * FROM customers FOR UPDATE")
        with pytest.raises(EnvironmentFailureError) as busy:
            shop.undo(done.images.descriptor)
        assert busy.value.reason is Reason.DATABASE_BUSY
        assert "public.customers" in busy.value.what
    with writing(shop) as writers:
        shop.undo(done.images.descriptor, force=True)
    assert writers.problems == []
