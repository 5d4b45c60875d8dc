"""What a plan did to rows goes back exactly, whatever the statements, types and foreign keys; or it is said why not.

Sequences of statements are drawn at random; every row of every table is compared, as text, before and after.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.sandbox.host import SandboxHost
from tests.effects.postgres.postgres_sandbox import Shop

LONG: Final = bool(os.environ.get("REMIT_LONG"))

FAMILY: Final = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s "fine"');
CREATE DOMAIN small AS integer CHECK (VALUE < 1000);
CREATE TABLE parents (id integer PRIMARY KEY, code text UNIQUE, note text);
CREATE TABLE children (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  parent integer REFERENCES parents ON DELETE CASCADE ON UPDATE CASCADE,
  amount small NOT NULL DEFAULT 0, doubled integer GENERATED ALWAYS AS (amount * 2) STORED);
CREATE TABLE links (
  a integer, b text, parent integer REFERENCES parents ON DELETE SET NULL, PRIMARY KEY (a, b));
CREATE TABLE deferred (
  id serial PRIMARY KEY, parent integer REFERENCES parents DEFERRABLE INITIALLY DEFERRED, felt mood);
INSERT INTO parents SELECT n, 'c' || n, 'note ' || n FROM generate_series(1, 6) n;
INSERT INTO children (parent, amount) SELECT n % 6 + 1, n FROM generate_series(1, 9) n;
INSERT INTO links SELECT n, 'b' || n, n % 6 + 1 FROM generate_series(1, 5) n;
INSERT INTO deferred (parent, felt) VALUES (1, 'ok'), (2, NULL);
"""

NUMBER: Final = st.integers(1, 8)
WORD: Final = st.sampled_from(["", "x", "it's", '"quoted"', "a\\b", "NULL", "{1,2}", "Grüße ☃", "two\nlines", "$1; --"])
TEMPLATES: Final = (
    "INSERT INTO parents VALUES ({a}, 'n{a}', $w) ON CONFLICT (id) DO UPDATE SET note = $w",
    "INSERT INTO parents VALUES (100 + {a}, 'm{a}', $w) ON CONFLICT DO NOTHING",
    "UPDATE parents SET note = $w WHERE id % 3 = {a} % 3",
    "UPDATE parents SET id = id + {a} * 1000 WHERE id = {b}",
    "UPDATE parents SET code = code || 'x' WHERE id = {a}",
    "DELETE FROM parents WHERE id = {a} AND NOT EXISTS (SELECT FROM deferred d WHERE d.parent = parents.id)",
    "INSERT INTO children (parent, amount) SELECT min(id), {a} FROM parents",
    "UPDATE children SET amount = amount + {a} WHERE id > {b}",
    "DELETE FROM children WHERE id = {a}",
    "INSERT INTO links VALUES ({a}, $w, NULL) ON CONFLICT DO NOTHING",
    "UPDATE links SET b = b || $w WHERE a < {a}",
    "DELETE FROM links WHERE a = {a}",
    "UPDATE deferred SET felt = 'sad', parent = NULL WHERE id <= {a}",
    "DELETE FROM deferred WHERE id = {a}",
    """
    WITH gone AS (DELETE FROM links WHERE a = {a} RETURNING *)
    UPDATE parents SET note = $w WHERE id IN (SELECT parent FROM gone)
    """,
    """
    MERGE INTO links l USING parents p ON l.a = p.id WHEN MATCHED AND p.id < {a} THEN DELETE
    WHEN MATCHED THEN UPDATE SET parent = NULL WHEN NOT MATCHED THEN INSERT VALUES (p.id, 'merged', NULL)
    """,
)
STATEMENT: Final = st.builds(lambda text, a, b: text.format(a=a, b=b), st.sampled_from(TEMPLATES), NUMBER, NUMBER)


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory, host: SandboxHost, module_postgres_url: str) -> Iterator[Shop]:
    made = Shop(tmp_path_factory.mktemp("family"), host, module_postgres_url, tables=FAMILY)
    yield made
    made.drop_role()


@pytest.mark.req("PX-20")
@pytest.mark.timeout(3_600 if LONG else 300)
@settings(
    max_examples=500 if LONG else 12,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(statements=st.lists(STATEMENT, min_size=1, max_size=6), word=WORD)
def test_any_changes_of_rows_go_back_exactly(family: Shop, statements: list[str], word: str) -> None:
    used = any("$w" in one for one in statements)
    text = family.text(";\n".join(statements), 1, parameters={"w": word} if used else {})
    before = family.dump()
    try:
        seen = family.preview(text)
        if seen.was_explained:  # it takes numbers from a sequence
            seen = family.tried(text)
    except EnvironmentFailureError as failed:
        if failed.reason is not Reason.SQL_FAILED:
            raise
        event("breaks a constraint")
        assert family.dump() == before  # it breaks a constraint, and does nothing at all
        return
    assert family.dump() == before
    (action,) = seen.actions
    if action.irreversible:
        # The one thing that cannot be followed: a row that one statement both made and removed.
        event("not followed")
        assert "followed" in action.irreversible or "given back" in action.irreversible
        return
    done = family.apply(text)
    assert done.bound == seen.bound
    assert done.actions[0].tables == action.tables
    event("nothing changed" if done.images is None else "changed and given back")
    if done.images is None:
        assert family.dump() == before
        return
    try:
        assert family.engine.find_drifted_rows(family.server, done.images.descriptor, seconds=20) == ()
        family.undo(done.images.descriptor)
    finally:
        os.close(done.images.descriptor)
        if seen.images is not None:
            os.close(seen.images.descriptor)
    assert family.dump() == before
    assert nothing_is_left(family)


@pytest.mark.req("PX-20")
def test_a_key_that_was_changed_goes_back_though_something_else_in_the_row_is_unique(family: Shop) -> None:
    """The old row and the new one cannot both be there, and to remove one would remove what refers to it."""
    before = family.dump()
    done = family.apply(
        "UPDATE deferred SET parent = NULL; UPDATE links SET parent = NULL; "
        "UPDATE parents SET id = id + 4000, note = 'moved' WHERE id < 3"
    )
    assert done.images is not None
    family.undo(done.images.descriptor)
    assert family.dump() == before


@pytest.mark.req("PX-20")
def test_the_preview_reports_rows_that_could_not_be_restored(shop: Shop) -> None:
    """Two rows have changed what is unique in them with each other: neither can be set back before the other."""
    shop.ask("CREATE TABLE pairs (id integer PRIMARY KEY, u text UNIQUE); INSERT INTO pairs VALUES (1, 'a'), (2, 'b')")
    before = shop.dump()
    swap = (
        "UPDATE pairs SET u = 'c' WHERE id = 1; UPDATE pairs SET u = 'a' WHERE id = 2; "
        "UPDATE pairs SET u = 'b' WHERE id = 1"
    )
    seen = shop.preview(swap)
    assert "not all its rows could be restored" in seen.actions[0].irreversible
    assert seen.images is None
    done = shop.apply(swap)
    assert done.bound == seen.bound
    assert shop.dump() != before


def nothing_is_left(shop: Shop) -> bool:
    triggers = shop.ask("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal")
    functions = shop.ask("SELECT count(*) FROM pg_proc WHERE proname LIKE 'remit%'")
    tables = shop.ask("SELECT count(*) FROM pg_class WHERE relname LIKE 'remit%'")
    return triggers == functions == tables == [(0,)]


TYPES: Final = """
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TYPE pair AS (a integer, b text);
CREATE TABLE everything (
  id uuid PRIMARY KEY, n numeric, n2 numeric(12,4), f4 real, f8 double precision, i2 smallint, i8 bigint, b boolean,
  c "char", ch character(7), vc varchar(9), t text, by bytea, d date, ti time, tz timetz, ts timestamp,
  tstz timestamptz(3), iv interval, j json, jb jsonb, ia integer[], ta text[], m mood, p pair, ir int4range,
  tr tstzrange, mr int4multirange, ip inet, ci cidr, mac macaddr, bi bit(5), vb varbit, mo money, pt point, bx box,
  tv tsvector, x xml, o oid, rc regclass, nm name, lsn pg_lsn);
"""
ROWS: Final = """
INSERT INTO everything VALUES
('00000000-0000-0000-0000-000000000001', 'NaN', 1.5, 'NaN', '-Infinity', -32768, 9223372036854775807, true, 'x', 'ab',
 'vc', 'it''s "q" \\ {},', '\\x00ff5c27', 'infinity', '24:00', '12:00:00.123456+05:30', '-infinity',
 '2026-02-28 23:59:59.999+13', '-1 year +2 mons -3 days +04:05:06.000007', '{"b": 1,  "a":[null]}',
 '{"b": 1.50, "a": "\\u00e9"}', '{{1,NULL},{3,4}}', '{"a,b","NULL",NULL,"","{}"}', 'sad', '(5,"x ""y"" (z)")', '[1,5)',
 '["2026-01-01 00:00+00",)', '{[1,3),[7,9)}', '10.0.0.1/8', '192.168.0.0/16', '08:00:2b:01:02:03', '10101', '1',
 '12.34', '(1.5,-2)', '(3,4),(1,2)', '''it'':1 a:2B', '<a b="c">d</a>', 4294967295, 'pg_class', 'n', '16/B374D848'),
('00000000-0000-0000-0000-000000000002', 0.10000000000000000000000000001, NULL, 1e-45, 0.1, 0, 0, NULL, '', '', '', '',
 '', '0044-03-15 BC', '00:00', '00:00+15:59', '294276-12-31 23:59:59.999999', '4713-01-01 00:00:00 BC', '0', 'null',
 'null', '{}', '{}', NULL, '(,)', 'empty', 'empty', '{}', '::1', '::/0', NULL, '00000', '', '-0.01', NULL, NULL, '',
 NULL, 0, NULL, '', NULL)
"""


@pytest.mark.req("PX-20")
@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM everything",
        "UPDATE everything SET n = 1, f4 = 2, by = 'x', iv = '1 day', j = '1', jb = '2', ta = '{x}', m = 'happy'",
        "UPDATE everything SET p = NULL, ir = NULL, mo = 1, f8 = 3, tstz = now(), c = 'y', ch = 'z', x = NULL",
        "UPDATE everything SET id = gen_random_uuid()",
        "DELETE FROM everything WHERE b; INSERT INTO everything (id, t) VALUES (gen_random_uuid(), 'new')",
    ],
)
def test_values_of_every_common_type_come_back_as_they_were(shop: Shop, change: str) -> None:
    shop.ask(TYPES)
    shop.ask(ROWS)
    before = shop.dump()
    done = shop.apply(change)
    assert shop.dump() != before
    assert done.images is not None
    shop.undo(done.images.descriptor)
    assert shop.dump() == before


# --- others have been there since ------------------------------------------------------------------------------------


@pytest.mark.req("PX-20")
@pytest.mark.parametrize(
    "since, rows, what",
    [
        ("UPDATE customers SET name = 'Eve' WHERE id = 1", 1, "changed"),
        ("DELETE FROM customers WHERE id = 1", 1, "deleted"),
        ("INSERT INTO customers VALUES (3, 'New', NULL)", 1, "inserted again"),
    ],
)
def test_rows_that_others_changed_since_are_not_set_back_unless_it_is_forced(
    shop: Shop, since: str, rows: int, what: str
) -> None:
    before = shop.dump()
    done = shop.apply("UPDATE customers SET city = 'Rome' WHERE id = 1; DELETE FROM customers WHERE id = 3")
    assert done.images is not None
    shop.ask(since)
    changed = shop.dump()
    (drift,) = shop.engine.find_drifted_rows(shop.server, done.images.descriptor, seconds=20)
    assert (drift.table, drift.rows) == ("public.customers", rows)
    assert what in drift.what
    with pytest.raises(RefusedError, match="the database has changed since the plan") as refused:
        shop.undo(done.images.descriptor)
    assert refused.value.reason is Reason.DRIFTED
    assert "Eve" not in str(refused.value)
    assert shop.dump() == changed
    shop.undo(done.images.descriptor, force=True)
    assert shop.dump()["customers"] == before["customers"]


@pytest.mark.req("PX-20")
def test_rows_of_others_that_refer_to_new_ones_are_not_removed_with_them(shop: Shop) -> None:
    done = shop.apply("INSERT INTO customers VALUES (9, 'Plan', NULL)")
    assert done.images is not None
    shop.ask("INSERT INTO orders (customer, total) VALUES (9, 1)")
    changed = shop.dump()
    with pytest.raises(EnvironmentFailureError, match="other rows refer to them"):
        shop.undo(done.images.descriptor)
    with pytest.raises(EnvironmentFailureError, match="other rows refer to them"):
        shop.undo(done.images.descriptor, force=True)
    assert shop.dump() == changed


@pytest.mark.req("PX-20")
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("since", ["DROP TABLE customers CASCADE", "ALTER TABLE customers ADD COLUMN age integer"])
def test_a_table_that_is_another_one_is_not_touched(shop: Shop, since: str, force: bool) -> None:  # noqa: FBT001
    done = shop.apply("UPDATE customers SET city = 'Rome'")
    assert done.images is not None
    shop.ask(since)
    changed = shop.dump()
    assert shop.engine.find_drifted_rows(shop.server, done.images.descriptor, seconds=20)[0].rows == 0
    with pytest.raises(RefusedError) as refused:
        shop.undo(done.images.descriptor, force=force)
    assert refused.value.reason is Reason.DRIFTED
    assert shop.dump() == changed


@pytest.mark.req("PX-20")
def test_images_of_one_database_are_not_used_on_another(
    shop: Shop, host: SandboxHost, tmp_path: Path, other_postgres_url: str
) -> None:
    done = shop.apply("UPDATE customers SET city = 'Rome'")
    assert done.images is not None
    other = Shop(tmp_path / "other", host, other_postgres_url)
    try:
        with pytest.raises(RefusedError, match="not the database that the plan changed"):
            other.undo(done.images.descriptor)
    finally:
        other.drop_role()


def test_a_file_that_holds_no_images_is_not_used(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "images").write_text('{"format": "remit-row-images/1"}\n')
    descriptor = os.open(tmp_path / "images", os.O_RDONLY)
    with pytest.raises(EnvironmentFailureError, match="cannot be read"):
        shop.undo(descriptor)
    os.close(descriptor)


# --- what cannot go back ---------------------------------------------------------------------------------------------

PARTITIONED: Final = (
    "CREATE TABLE p (id integer PRIMARY KEY) PARTITION BY RANGE (id); "
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)"
)
TRIGGERED: Final = (
    "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN INSERT INTO log VALUES ('noted'); RETURN NULL; END $$; "
    "CREATE TRIGGER noted AFTER UPDATE ON customers FOR EACH STATEMENT EXECUTE FUNCTION noted()"
)
MAKING: Final = (
    "CREATE FUNCTION hidden() RETURNS integer LANGUAGE plpgsql AS "
    "$$ BEGIN CREATE TABLE made (a integer); RETURN 1; END $$"
)


@pytest.mark.req("PX-20")
@pytest.mark.parametrize(
    "made, text, words",
    [
        ("", "INSERT INTO log VALUES ('x')", "public.log has no primary key"),
        ("", "CREATE TABLE fresh (a integer)", "CREATE of fresh cannot be rolled back"),
        ("", "DROP TABLE log", "DROP of log cannot be rolled back"),
        ("", "ALTER TABLE log ADD COLUMN x text", "ALTER of log cannot be rolled back"),
        ("", "TRUNCATE orders", "TRUNCATE of orders cannot be rolled back"),
        ("", "CREATE TABLE fresh AS SELECT 1 AS a; UPDATE customers SET city = 'x'", "cannot be rolled back"),
        (
            PARTITIONED,
            "INSERT INTO p VALUES (1)",
            "public.p1 is a partition",
        ),
        (
            TRIGGERED,
            "UPDATE customers SET city = 'x'",
            "public.customers has triggers of its own",
        ),
        ("ALTER TABLE customers ENABLE ROW LEVEL SECURITY", "UPDATE customers SET city = 'x'", "has row security"),
        (
            "CREATE FUNCTION hidden() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN TRUNCATE orders; RETURN 1; END $$",
            "SELECT hidden()",
            "the change of the structure of the database by SELECT cannot be rolled back",
        ),
        (
            MAKING,
            "SELECT hidden()",
            "the change of the structure of the database by SELECT cannot be rolled back",
        ),
    ],
)
def test_the_preview_reports_changes_that_cannot_be_undone(shop: Shop, made: str, text: str, words: str) -> None:
    if made:
        shop.ask(made)
    shop.allow("public.noted", "public.hidden")
    before = shop.dump()
    seen = shop.preview(text)
    assert seen.actions[0].irreversible
    if seen.was_explained:  # a function of the database
        seen = shop.tried(text)
    assert words in seen.actions[0].irreversible
    assert seen.images is None
    assert shop.dump() == before
    done = shop.apply(text)
    assert done.actions[0].irreversible == seen.actions[0].irreversible


@pytest.mark.req("PX-20")
def test_changes_that_a_function_hides_are_seen_and_go_back(shop: Shop) -> None:
    shop.ask(
        "CREATE FUNCTION hidden() RETURNS integer LANGUAGE sql AS $$ UPDATE customers SET city = 'hidden'; SELECT 1 $$"
    )
    shop.allow("public.hidden")
    before = shop.dump()
    done = shop.apply("SELECT hidden()")
    assert done.tables[0] == ("public.customers", 0, 3, 0)
    assert done.actions[0].irreversible == ""
    assert done.images is not None
    shop.undo(done.images.descriptor)
    assert shop.dump() == before


@pytest.mark.req("PX-20")
def test_a_change_to_a_table_of_another_role_is_made_but_cannot_be_undone(shop: Shop) -> None:
    shop.ask("CREATE TABLE theirs (id integer PRIMARY KEY); GRANT ALL ON theirs TO PUBLIC", url=shop.admin)
    assert "does not belong to the role" in shop.preview("INSERT INTO theirs VALUES (1)").actions[0].irreversible


def test_one_action_may_go_back_and_another_not(shop: Shop) -> None:
    first, second = shop.preview("UPDATE customers SET city = 'x'", "INSERT INTO log VALUES ('x')").actions
    assert first.irreversible == ""
    assert second.irreversible == "public.log has no primary key"
