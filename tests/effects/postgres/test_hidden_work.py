"""What functions, triggers and types of the database do beside what the statements say: it is counted, or refused, or
has no effect.
"""

import socket
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.effects.postgres.constraints import is_unchanged_by_constraints
from remit.effects.postgres.libpq import PostgresWire
from remit.effects.postgres.row_counts import count
from remit.effects.postgres.session import open_session
from remit.plans.engines.postgres import PostgresEngine
from tests.effects.postgres.postgres_sandbox import QUOTAS, Shop, make_host

EVIL = """
CREATE FUNCTION evil() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN DELETE FROM public.orders; RETURN 1; END $$;
CREATE FUNCTION opens() RETURNS integer LANGUAGE plpgsql AS
$$ BEGIN EXECUTE 'DECLARE c CURSOR WITH HOLD FOR SELECT public.evil()'; RETURN 1; END $$;
"""
LATE = """
CREATE TABLE totals (id integer PRIMARY KEY, n integer NOT NULL);
INSERT INTO totals VALUES (1, 0);
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON log DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION late();
"""
ADDS = "INSERT INTO log VALUES ('x')"


# --- within COMMIT ---------------------------------------------------------------------------------------------------


@pytest.mark.req("PX-29")
def test_a_cursor_that_would_run_within_commit_is_refused(shop: Shop) -> None:
    shop.ask(EVIL)
    shop.allow("public.evil", "public.opens()")
    before = shop.dump()
    for run in (shop.tried, shop.apply):
        with pytest.raises(RefusedError) as refused:
            run("UPDATE customers SET city = 'x'; SELECT opens()")
        assert refused.value.reason is Reason.SQL_REFUSED
        assert "statement 2 (SELECT) opened a cursor WITH HOLD" in refused.value.what
    assert shop.dump() == before


@pytest.mark.req("PX-29")
def test_a_cursor_that_a_late_trigger_opens_is_refused_too(shop: Shop) -> None:
    shop.ask(EVIL + LATE.format(body="PERFORM opens();"))
    shop.allow("public.late")
    before = shop.dump()
    with pytest.raises(RefusedError, match="opened a cursor"):
        shop.apply(ADDS)
    assert shop.dump() == before


@pytest.mark.req("PX-29")
def test_a_function_that_changes_the_role_of_the_session_is_refused(shop: Shop) -> None:
    other = f"{shop.role}_other"
    shop.ask(f"CREATE ROLE {other}; GRANT {other} TO {shop.role}", url=shop.admin)
    shop.ask(
        "CREATE FUNCTION becomes() RETURNS integer LANGUAGE plpgsql AS "
        f"$$ BEGIN EXECUTE 'SET LOCAL ROLE {other}'; RETURN 1; END $$"
    )
    shop.allow("public.becomes")
    try:
        with pytest.raises(RefusedError, match="changed the role of the session"):
            shop.tried("SELECT becomes()")
    finally:
        shop.ask(f"DROP ROLE {other}", url=shop.admin)


@pytest.mark.req("PX-29")
def test_what_a_late_trigger_changes_is_counted_and_bound(shop: Shop) -> None:
    """Its names are found as the role's session finds them."""
    shop.ask(LATE.format(body="UPDATE totals SET n = n + 1;"))
    shop.allow("public.late")
    seen = shop.tried("SELECT 1", ADDS)
    first, last = seen.actions
    assert first.tables == ()
    assert last.tables == (("public.log", 1, 0, 0), ("public.totals", 0, 1, 0))
    assert last.answer is not None
    assert last.answer.statements[-1].writes == ("public.log", "public.totals")
    assert "public.totals" in last.answer.statements[-1].words
    shop.ask("CREATE OR REPLACE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$")
    assert shop.tried("SELECT 1", ADDS).bound != seen.bound


@pytest.mark.req("PX-20", "PX-29")
def test_rows_that_a_late_trigger_deletes_are_followed_and_told_as_destroyed(shop: Shop) -> None:
    shop.ask(LATE.format(body="DELETE FROM orders WHERE id = 1;"))
    shop.allow("public.late")
    done = shop.apply(ADDS)
    (action,) = done.actions
    assert action.tables == (("public.log", 1, 0, 0), ("public.orders", 0, 0, 1))
    assert done.images is not None  # as many rows of orders were kept as were counted
    assert action.irreversible == "public.log has no primary key"
    assert action.answer is not None
    assert action.answer.statements[0].destroys


@pytest.mark.req("PX-29")
def test_triggers_that_defer_each_other_without_end_are_refused(shop: Shop) -> None:
    shop.ask(LATE.format(body="SET CONSTRAINTS ALL DEFERRED; INSERT INTO log VALUES ('again');"))
    shop.allow("public.late")
    before = shop.dump()
    with pytest.raises(RefusedError, match="defer one another"):
        shop.apply(ADDS)
    assert shop.dump() == before


@pytest.mark.req("PX-29")
def test_a_trigger_that_puts_off_its_work_once_more_is_counted(shop: Shop) -> None:
    body = (
        "IF NEW.line = 'x' THEN SET CONSTRAINTS ALL DEFERRED; INSERT INTO log VALUES ('y'); "
        "ELSE UPDATE totals SET n = n + 1; END IF;"
    )
    shop.ask(LATE.format(body=body))
    shop.allow("public.late")
    done = shop.apply(ADDS)
    assert set(done.tables) == {("public.log", 2, 0, 0), ("public.totals", 0, 1, 0)}
    assert shop.ask("SELECT n FROM totals") == [(1,)]


@pytest.mark.req("PX-29")
def test_whatever_is_left_for_commit_is_done_before_it_and_seen(shop: Shop) -> None:
    """The last look, at work that no earlier one saw."""
    shop.ask(EVIL + LATE.format(body="UPDATE totals SET n = n + 1;"))
    wire = PostgresWire({name: str(value) for name, value in conninfo_to_dict(shop.url).items()})
    try:
        session = open_session(wire, reads_only=False, seconds=20.0)
        wire.do("INSERT INTO public.log VALUES ('x')")
        wire.do("SELECT public.opens()")
        counted = count(wire)
        assert not is_unchanged_by_constraints(session, counted)  # the trigger has run
        assert is_unchanged_by_constraints(session, count(wire))
        wire.do("COMMIT")
    finally:
        wire.close()
    assert shop.ask("SELECT n FROM totals") == [(1,)]
    assert shop.ask("SELECT count(*) FROM orders") == [(3,)]  # the cursor's query never ran


@pytest.mark.req("PX-29")
def test_what_changes_nothing_is_not_committed(shop: Shop) -> None:
    shop.ask(
        "CREATE FUNCTION tells() RETURNS integer LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_notify('remit_test', 'heard'); RETURN 1; END $$"
    )
    shop.allow("public.tells")
    with psycopg.connect(shop.url, autocommit=True) as listener:
        listener.execute("LISTEN remit_test")
        done = shop.apply("SELECT tells()")
        assert done.transaction.xid == ""
        assert list(listener.notifies(timeout=1, stop_after=1)) == []
        shop.ask("SELECT tells()")  # it would have been heard
        assert len(list(listener.notifies(timeout=10, stop_after=1))) == 1


@pytest.mark.req("PX-29")
def test_a_function_cannot_make_the_commit_less_durable(shop: Shop) -> None:
    shop.ask(
        "CREATE FUNCTION hurries() RETURNS integer LANGUAGE plpgsql AS "
        "$$ BEGIN SET LOCAL synchronous_commit = off; SET LOCAL extra_float_digits = 0; RETURN 1; END $$;"
        "CREATE TABLE seen (id serial PRIMARY KEY, level text, digits text);"
    )
    shop.allow("public.hurries")
    looks = (
        "INSERT INTO seen (level, digits) VALUES "
        "(current_setting('synchronous_commit'), current_setting('extra_float_digits'))"
    )
    shop.apply(f"SELECT hurries(); {looks}")
    assert shop.ask("SELECT level, digits FROM seen") == [("on", "3")]


# --- told for what it is ---------------------------------------------------------------------------------------------


@pytest.mark.req("PX-29")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT evil()",
        "WITH a AS (WITH b AS (SELECT evil() AS n) SELECT n FROM b) UPDATE customers SET city = 'x' FROM a",
    ],
)
def test_rows_that_a_function_deletes_are_reported_as_destroyed(shop: Shop, text: str) -> None:
    shop.ask(EVIL)
    shop.allow("public.evil", "public.opens()")
    (action,) = shop.tried(text).actions
    assert action.answer is not None
    assert action.answer.statements[0].destroys
    assert ("public.orders", 0, 0, 3) in action.tables


@pytest.mark.req("PX-29")
@pytest.mark.parametrize("call", ["setval", "pg_catalog.setval", '"setval"'])
def test_a_sequence_is_not_set_by_a_preview(shop: Shop, call: str) -> None:
    with pytest.raises(RefusedError) as refused:
        shop.preview(f"SELECT {call}('orders_id_seq', 99)")
    assert refused.value.reason is Reason.SQL_REFUSED
    assert "ALTER SEQUENCE ... RESTART WITH" in refused.value.next_step
    assert shop.ask("SELECT last_value FROM orders_id_seq") == [(3,)]
    shop.preview("ALTER SEQUENCE orders_id_seq RESTART WITH 99")
    assert shop.ask("SELECT last_value FROM orders_id_seq") == [(3,)]
    shop.apply("ALTER SEQUENCE orders_id_seq RESTART WITH 99")
    assert shop.ask("SELECT last_value FROM orders_id_seq") == [(99,)]


@pytest.mark.req("PX-20")
def test_where_event_triggers_watch_no_images_are_taken(shop: Shop) -> None:
    shop.ask(
        "CREATE TABLE watched (tag text); GRANT ALL ON watched TO PUBLIC;"
        "CREATE FUNCTION watches() RETURNS event_trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO public.watched VALUES (tg_tag); END $$;"
        "CREATE EVENT TRIGGER watcher ON ddl_command_end EXECUTE FUNCTION watches()",
        url=shop.admin,
    )
    done = shop.apply("UPDATE customers SET city = 'x'")
    assert "the database has event triggers" in done.actions[0].irreversible
    assert done.images is None
    assert shop.ask("SELECT tag FROM watched") == []
    shop.ask("ALTER EVENT TRIGGER watcher DISABLE", url=shop.admin)
    assert shop.apply("UPDATE customers SET city = 'y'").images is not None


@pytest.mark.req("PX-20")
def test_a_reader_is_in_the_way_of_what_is_about_to_be_done_and_not_of_a_look(shop: Shop) -> None:
    with shop.connected() as reader:
        reader.execute("SELECT * FROM customers")
        assert shop.preview("UPDATE customers SET city = 'x'").images is not None
        with pytest.raises(EnvironmentFailureError) as busy:
            shop.preview("UPDATE customers SET city = 'x'", in_earnest=True)
        assert busy.value.reason is Reason.DATABASE_BUSY
        assert shop.preview("SELECT * FROM customers", in_earnest=True).images is None


@pytest.mark.req("PX-29")
def test_a_value_that_is_too_large_for_this_process_is_reported_as_such(shop: Shop, tmp_path: Path) -> None:
    with make_host(tmp_path / "small", replace(QUOTAS, memory_bytes=64 << 20)) as small:
        shop.engine = PostgresEngine(lambda: small, "task-1", lambda: False)
        with pytest.raises(EnvironmentFailureError) as failed:
            shop.preview("SELECT repeat('x', 90000000)")
    assert failed.value.reason is Reason.RESOURCE_EXHAUSTED
    assert "too large for the sandboxed process" in failed.value.what


@pytest.mark.req("PX-29")
def test_a_server_that_hangs_while_a_transaction_number_is_made_durable_is_reported_as_timed_out(shop: Shop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # whoever connects waits for ever
        server = shop.find(f"postgresql://u:p@127.0.0.1:{mute.getsockname()[1]}/shop?sslmode=disable")
        with pytest.raises(EnvironmentFailureError) as failed:
            shop.engine.require_durable_commit(server, seconds=0.5)
    assert failed.value.reason is Reason.TIMED_OUT
    assert failed.value.what == "the server did not answer within 0.5 seconds"
    assert failed.value.where == server.where


# --- exact -----------------------------------------------------------------------------------------------------------

ODD = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a integer, b text);
CREATE FUNCTION as_text(mood) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'mood' $$;
CREATE FUNCTION as_text(pair) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'pair' $$;
CREATE CAST (mood AS text) WITH FUNCTION as_text(mood) AS ASSIGNMENT;
CREATE CAST (pair AS text) WITH FUNCTION as_text(pair) AS ASSIGNMENT;
CREATE TABLE odd (
  id bpchar PRIMARY KEY, blanks bpchar, fixed char(5), felt mood, pairs pair, many mood[], flag boolean, net inet);
INSERT INTO odd VALUES
  ('k ', 'two  ', 'ab', 'sad', (1, 'x y'), '{sad,ok}', true, '10.0.0.1'),
  ('l', '', '', 'ok', (NULL, NULL), '{}', false, '10.0.0.0/8'), ('m', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
"""
EXACTLY = (
    "SELECT format('%s|%s|%s|%s|%s', id, blanks, felt, pairs, many), num_nulls(id, blanks, felt, pairs, many), "
    "octet_length(id), octet_length(blanks), fixed, flag, net FROM odd ORDER BY id"
)


@pytest.mark.req("PX-20")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE odd SET blanks = 'x', felt = 'ok', pairs = (2, 'z'), many = NULL, flag = NOT flag, net = NULL",
        "UPDATE odd SET blanks = blanks || '', felt = NULL, pairs = NULL, fixed = 'q'",
        "DELETE FROM odd",
    ],
)
def test_values_that_a_cast_to_text_would_lose_are_restored(shop: Shop, change: str) -> None:
    shop.ask(ODD)
    before = shop.ask(EXACTLY)
    done = shop.apply(change)
    assert done.actions[0].irreversible == ""
    assert done.images is not None
    assert shop.ask(EXACTLY) != before
    shop.undo(done.images.descriptor)
    assert shop.ask(EXACTLY) == before


@pytest.mark.req("PX-20")
def test_a_change_that_a_cast_to_text_hides_is_seen_as_drift(shop: Shop) -> None:
    shop.ask(ODD)
    done = shop.apply("UPDATE odd SET felt = 'ok' WHERE id = 'k '")
    assert done.images is not None
    shop.ask("UPDATE odd SET blanks = 'two' WHERE id = 'k '")
    with pytest.raises(RefusedError) as refused:
        shop.undo(done.images.descriptor)
    assert refused.value.reason is Reason.DRIFTED


@pytest.mark.req("PX-20")
def test_a_type_that_somebodys_function_makes_of_a_text_is_not_captured(shop: Shop) -> None:
    shop.ask(
        ODD + "CREATE FUNCTION a_mood(text) RETURNS mood LANGUAGE sql IMMUTABLE AS $$ SELECT mood 'ok' $$;"
        "CREATE CAST (text AS mood) WITH FUNCTION a_mood(text)"
    )
    (action,) = shop.preview("DELETE FROM odd").actions
    assert "public.odd has a column of type public.mood" in action.irreversible
