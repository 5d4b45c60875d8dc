"""A preview of a plan leaves the server as it was; neither it nor an apply is in a deadlock with writers of rows."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from remit.core.errors import RemitError
from tests.plans.postgres.postgres_project import UPDATE, Store, on_shop
from tests.plans.postgres.test_secrets import said
from tests.plans.project import plan_of, ran, refused

NUMBERED = "CREATE TABLE numbered (id serial PRIMARY KEY, line text); SELECT setval('numbered_id_seq', 10)"
HIDDEN = "SELECT 'a'::tsquery, setval('numbered_id_seq', 99)::text::tsquery"
BOTH = "UPDATE people SET note = 'x'; UPDATE orders SET total = total + 1"


@contextmanager
def written_to(store: Store) -> Iterator[list[str]]:
    """A session that changes rows every 50 ms: what it is told that went wrong."""
    problems: list[str] = []
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(store.url) as connection:
            while not stop.wait(0.05):
                try:
                    connection.execute("SELECT * FROM people")
                    connection.execute("UPDATE orders SET state = state WHERE id = 3")
                    connection.execute("UPDATE people SET name = name WHERE id = 2")
                    connection.commit()
                except psycopg.Error as problem:
                    problems.append(type(problem).__name__)
                    connection.rollback()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield problems
    finally:
        stop.set()
        thread.join()


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("connection", ["shop", "reading"])
def test_a_function_that_runs_text_is_refused_and_sets_nothing(store: Store, connection: str) -> None:
    store.ask(NUMBERED)
    plan = plan_of(on_shop("a1", f"SELECT ts_rewrite('a'::tsquery, $q${HIDDEN}$q$)", connection=connection))
    document = store.workspace.preview(plan).document
    assert document.status == "WOULD_FAIL"
    assert store.ask("SELECT last_value FROM numbered_id_seq") == [(10,)]
    path = store.folder / "plan.json"
    path.write_bytes(plan)
    _, output = said(store, "preview", str(path))
    assert "ts_rewrite" in output
    assert store.ask("SELECT last_value FROM numbered_id_seq") == [(10,)]


@pytest.mark.req("PV-05")
def test_the_settings_of_the_session_are_not_changed(store: Store) -> None:
    query = "UPDATE pg_settings SET setting = '99' WHERE name = 'extra_float_digits'"
    document = store.workspace.preview(plan_of(on_shop("a1", query))).document
    assert document.status == "WOULD_FAIL"
    assert "pg_settings belongs to the server's own catalog" in str(document)


@pytest.mark.req("PV-05")
def test_a_preview_takes_no_number_from_a_sequence_and_apply_works(store: Store) -> None:
    store.ask(NUMBERED)
    plan = plan_of(on_shop("a1", "INSERT INTO numbered (line) VALUES ('x')"))
    (told,) = store.workspace.preview(plan).document.sql
    assert told.computed == "explained"
    assert told.statements[0].rows_changed is None
    assert told.statements[0].estimated_rows == 1
    assert told.irreversible is None
    assert "takes numbers from the sequence public.numbered_id_seq, which a rollback keeps" in told.notes[1]
    envelope = store.approve(plan).canonical()
    assert store.ask("SELECT last_value FROM numbered_id_seq") == [(10,)]
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"
    assert store.ask("SELECT id FROM numbered") == [(11,)]
    assert store.ask("SELECT last_value FROM numbered_id_seq") == [(11,)]


@pytest.mark.req("PV-05")
def test_a_function_of_the_database_is_named_in_the_config_by_a_person(open_store: Callable[..., Store]) -> None:
    connection = {"type": "postgresql", "preview": "execute", "url_variable": "SHOP_URL"}
    store = open_store(connections={"shop": connection, "free": {**connection, "functions": ["public.twice(numeric)"]}})
    store.ask("CREATE FUNCTION twice(numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2'")
    query = "UPDATE orders SET total = twice(total)"
    document = store.workspace.preview(plan_of(on_shop("a1", query))).document
    assert document.status == "WOULD_FAIL"
    assert "public.twice(numeric)" in str(document)
    named = plan_of(on_shop("a1", query, connection="free"))
    (told,) = store.workspace.preview(named).document.sql
    assert told.computed == "explained"
    assert told.irreversible == "what it changes is known only when it runs"
    envelope = store.approve(named, irreversible=["a1"]).canonical()
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PV-05")
def test_a_function_without_its_schema_is_refused_with_how_it_is_written(open_store: Callable[..., Store]) -> None:
    connection = {"type": "postgresql", "preview": "execute", "url_variable": "SHOP_URL", "functions": ["net_price"]}
    with pytest.raises(RemitError, match=r"write schema\.name, such as public\.net_price"):
        open_store(connections={"shop": connection}).workspace.preview(plan_of(on_shop("a1", UPDATE)))


@pytest.mark.req("PV-05")
@pytest.mark.timeout(300)
def test_previews_and_applies_are_in_no_deadlock_with_a_writer(store: Store) -> None:
    plan = plan_of(on_shop("a1", BOTH))
    with written_to(store) as problems:
        for _ in range(4):
            assert store.workspace.preview(plan).document.status != "WOULD_FAIL"
        assert ran(store.workspace.apply(store.approve(plan).canonical())).status.status == "SUCCESS"
    assert problems == []


@pytest.mark.req("PV-05", "PX-34")
def test_a_lock_that_cannot_be_acquired_is_reported_with_its_table_and_the_approval_stays_valid(
    open_store: Callable[..., Store],
) -> None:
    connection = {"type": "postgresql", "preview": "execute", "url_variable": "SHOP_URL", "lock_timeout_seconds": 1}
    store = open_store(connections={"shop": connection})
    envelope = store.approve(plan_of(on_shop("a1", UPDATE))).canonical()
    with store.held("SELECT * FROM orders FOR UPDATE"):
        code, message = refused(store.workspace.apply(envelope))
    assert code == 2011
    assert "another session holds a lock on public.orders" in message
    assert "within 1 seconds" in message
    assert store.world() == store.before
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"
