"""Functions that a statement may reach: allowed by the catalog, however they are reached; the rest is refused."""

import random
import time
from contextlib import suppress
from typing import Any, Final

import psycopg
import pytest

from remit.core.errors import Reason, RefusedError, RemitError
from remit.effects.postgres.builtin_functions import BUILT_IN
from remit.effects.postgres.function_allowlist import (
    FIRST_OF_USERS,
    MAKES_JSON,
    NOT_ALLOWED,
    REVIEWED,
    ServerFunction,
    why_refused,
)
from remit.effects.postgres.parse_tree import parse_tree
from tests.effects.postgres.postgres_sandbox import Shop

RUNS_TEXT: Final = frozenset(
    {"cursor_to_xml", "cursor_to_xmlschema", "database_to_xml", "query_to_xml", "query_to_xmlschema", "schema_to_xml"}
    | {"table_to_xml", "ts_rewrite(tsquery,text)", "ts_stat"}
)
REACHES_OUT: Final = frozenset(
    {"dblink", "lo_create", "lo_get", "lo_import", "lo_export", "nothing", "pg_advisory_lock", "pg_advisory_xact_lock"}
    | {"pg_cancel_backend", "pg_create_logical_replication_slot", "pg_export_snapshot", "pg_logical_emit_message"}
    | {"pg_logical_slot_get_changes", "pg_ls_dir", "pg_notify", "pg_read_file", "pg_read_binary_file", "pg_reload_conf"}
    | {"pg_sleep", "pg_sleep_for", "pg_stat_file", "pg_terminate_backend", "pg_try_advisory_lock", "set_config"}
    | {"setseed", "setval", "pg_switch_wal", "pg_stat_reset", "brin_summarize_range", "gin_clean_pending_list"}
)
EVERY: Final = """
SELECT p.oid, p.proname, n.nspname, p.oid::regprocedure::text, p.provolatile, '',
  has_function_privilege('public', p.oid, 'EXECUTE')
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid < 16384
"""
OF_OPERATORS: Final = "SELECT DISTINCT oprcode::oid FROM pg_operator WHERE oid < 16384 AND oprcode <> 0"
WORLD: Final = """
SELECT (SELECT string_agg(format('%s %s %s', s.schemaname, s.sequencename, s.last_value), ',' ORDER BY 1)
    FROM pg_sequences s),
  (SELECT md5(string_agg(name || '=' || setting, ',' ORDER BY name)) FROM pg_settings
    WHERE name NOT IN ('transaction_isolation', 'transaction_read_only', 'application_name')),
  (SELECT md5(string_agg(setrole::text || setdatabase::text || setconfig::text, ',' ORDER BY 1))
    FROM pg_db_role_setting),
  (SELECT string_agg(format('%s %s %s %s', pid, classid, objid, mode), ',' ORDER BY pid, classid, objid, mode)
    FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),
  (SELECT count(*) FROM pg_largeobject_metadata),
  (SELECT count(*) FROM pg_replication_slots),
  (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
  (SELECT string_agg(format('%s %s', pid, application_name), ',' ORDER BY pid) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()),
  (SELECT string_agg(oid::text, ',' ORDER BY oid) FROM pg_class WHERE relnamespace = 'public'::regnamespace),
  (SELECT string_agg(oid::text, ',' ORDER BY oid) FROM pg_proc WHERE oid >= 16384),
  (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal)
"""


def refused(shop: Shop, text: str, **more: Any) -> RefusedError:
    with pytest.raises(RefusedError) as problem:
        shop.preview(text, **more)
    assert problem.value.reason is Reason.SQL_REFUSED
    return problem.value


# --- every function --------------------------------------------------------------------------------------------------


@pytest.mark.req("PV-05")
def test_every_built_in_function_is_classified_and_no_volatile_one_is_allowed_without_a_reason(shop: Shop) -> None:
    found = [(ServerFunction(*row[:6]), row[6]) for row in shop.ask(EVERY)]
    allowed = [one for one, _ in found if not why_refused(one, ())]
    for_public = [one for one, is_public in found if is_public]
    assert len(for_public) > 3_000
    assert len([one for one in for_public if one.volatility == "v"]) > 150
    for one in allowed:
        assert one.volatility in ("i", "s") or REVIEWED.get(one.name), one.signature
        assert one.name not in RUNS_TEXT, one.signature
        assert one.signature not in RUNS_TEXT, one.signature
        assert one.name not in REACHES_OUT, one.signature
    for one, _ in found:
        if one not in allowed:
            assert one.volatility == "v" or NOT_ALLOWED.get(one.name), one.signature
    names = {one.name for one, _ in found}
    assert set(REVIEWED) <= names  # none is listed that is not there
    assert set(NOT_ALLOWED) - {"pg_input_error_info", "pg_input_is_valid"} <= names  # these came with version 16
    assert names <= BUILT_IN
    assert {one.name for one, _ in found if one.volatility != "v"}.isdisjoint(REVIEWED)
    assert {"lower", "now", "count", "generate_series", "to_jsonb", "current_setting"} <= {one.name for one in allowed}


@pytest.mark.req("PV-05")
def test_operators_of_the_server_reach_allowed_functions_only(shop: Shop) -> None:
    allowed = {row[0] for row in shop.ask(EVERY) if not why_refused(ServerFunction(*row[:6]), ())}
    assert {oid for (oid,) in shop.ask(OF_OPERATORS)} <= allowed


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("reads_only", [False, True])
@pytest.mark.parametrize(
    "text, name",
    [
        (
            "SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, setval(''orders_id_seq'', 77)::text::tsquery')",
            "ts",
        ),
        ("SELECT * FROM ts_rewrite('a', $$SELECT 'a'::tsquery, 'b'::tsquery$$)", "ts_rewrite"),
        ("SELECT table_to_xml('customers', true, false, '')", "table_to_xml"),
        ("SELECT domain_in('1'::cstring, 16384, -1) IS NULL", "domain_in"),
        ("SELECT pg_sleep_for('1 second')", "pg_sleep_for"),
        ("EXPLAIN SELECT ts_rewrite('a', $$SELECT 'a'::tsquery, 'b'::tsquery$$)", "ts_rewrite"),
        ("WITH a AS (SELECT pg_stat_clear_snapshot()) SELECT 1 FROM a", "pg_stat_clear_snapshot"),
        ("SELECT (SELECT brin_summarize_new_values(1) LIMIT 1)", "brin_summarize_new_values"),
    ],
)
def test_a_function_of_the_server_that_is_not_allowed_is_named(
    shop: Shop, text: str, name: str, *, reads_only: bool
) -> None:
    problem = refused(shop, text, reads_only=reads_only)
    assert f": {name}" in problem.what
    assert shop.ask("SELECT last_value FROM orders_id_seq") == [(3,)]


@pytest.mark.req("PV-05")
@pytest.mark.parametrize(
    "text",
    [
        "UPDATE pg_settings SET setting = 'off' WHERE name = 'enable_seqscan'",
        "WITH a AS (UPDATE pg_catalog.pg_settings SET setting = '1MB' WHERE name = 'work_mem') SELECT 1",
        "DELETE FROM pg_catalog.pg_description",
        "INSERT INTO information_schema.sql_features VALUES ('x')",
        "UPDATE mine SET setting = 'off'",
    ],
)
def test_the_catalog_is_not_changed(shop: Shop, text: str) -> None:
    shop.ask("CREATE VIEW mine AS SELECT * FROM pg_settings")
    with pytest.raises(RemitError) as problem:
        shop.preview(text)
    assert problem.value.reason in (Reason.SQL_REFUSED, Reason.SQL_FAILED)
    if "mine" not in text:
        assert "belongs to the server's own catalog" in problem.value.what


# --- functions of users, however they are reached --------------------------------------------------------------------

BAD: Final = "CREATE FUNCTION bad({arguments}) RETURNS {type} LANGUAGE plpgsql {label} AS $$ BEGIN {body} END $$;"
MOVES: Final = "PERFORM setval('orders_id_seq', 77); RETURN {value};"


def bad(arguments: str = "integer", kind: str = "integer", value: str = "1") -> str:
    """It says IMMUTABLE, and sets a sequence."""
    return BAD.format(arguments=arguments, type=kind, label="IMMUTABLE", body=MOVES.format(value=value))


DOMAIN: Final = "CREATE DOMAIN d AS integer CHECK (bad(VALUE) = 1);"
INDEX: Final = "CREATE INDEX i ON t (a) WHERE bad(1) = 1"
STATISTICS: Final = (
    "CREATE TABLE t (a integer, b integer); INSERT INTO t SELECT g, g FROM generate_series(1, 100) g;"
    "CREATE STATISTICS st ON (a + bad(1)), (b + 1) FROM t; ANALYZE t"
)
COMPARED: Final = (
    "CREATE TYPE mood AS ENUM ('sad');"
    + bad("mood, integer", "boolean", "true")
    + "".join(
        f"CREATE OPERATOR {name} (FUNCTION = bad, LEFTARG = mood, RIGHTARG = integer);"
        for name in ("<=", ">=", "~~", "=")
    )
)
"""Comparisons that a statement can ask for by a word."""
WAYS: Final = {
    "call": (bad(), "SELECT bad(1)"),
    "from": (bad(), "SELECT * FROM bad(1)"),
    "where": (bad(), "DELETE FROM customers WHERE bad(id) = 1"),
    "returning": (bad(), "UPDATE customers SET city = 'x' RETURNING bad(id)"),
    "order by": (bad(), "SELECT 1 FROM customers ORDER BY bad(id)"),
    "limit": (bad(), "SELECT 1 FROM customers LIMIT bad(1)"),
    "a row's member": (bad("customers"), "SELECT c.bad FROM customers c"),
    "explain": (bad(), "EXPLAIN SELECT 1 FROM customers WHERE id = bad(1)"),
    "operator": (
        bad("integer, integer") + "CREATE OPERATOR === (FUNCTION = bad, LEFTARG = integer, RIGHTARG = integer)",
        "SELECT 1 === 2",
    ),
    "any": (
        bad("integer, integer", "boolean", "true")
        + "CREATE OPERATOR === (FUNCTION = bad, LEFTARG = integer, RIGHTARG = integer)",
        "SELECT 1 WHERE 1 === ANY (ARRAY[1, 2])",
    ),
    "cast": (
        "CREATE TYPE mood AS ENUM ('sad');" + bad("mood") + "CREATE CAST (mood AS integer) WITH FUNCTION bad(mood)",
        "SELECT 'sad'::mood::integer",
    ),
    "implicit cast": (
        "CREATE TYPE mood AS ENUM ('sad');"
        + bad("mood")
        + "CREATE CAST (mood AS integer) WITH FUNCTION bad(mood) AS IMPLICIT",
        "UPDATE customers SET id = 'sad'::mood",
    ),
    "cast to json": (
        "CREATE TYPE mood AS ENUM ('sad');"
        + bad("mood", "json", "'1'")
        + "CREATE CAST (mood AS json) WITH FUNCTION bad(mood)",
        "SELECT to_jsonb('sad'::mood)",
    ),
    "default": (bad() + "CREATE TABLE t (a integer, b integer DEFAULT bad(1))", "INSERT INTO t (a) VALUES (1)"),
    "default word": (bad() + "CREATE TABLE t (a integer DEFAULT bad(1))", "UPDATE t SET a = DEFAULT"),
    "default of a view's table": (
        bad() + "CREATE TABLE t (a integer, b integer DEFAULT bad(1)); CREATE VIEW v AS SELECT a FROM t",
        "INSERT INTO v VALUES (1)",
    ),
    "generated column": (
        bad() + "CREATE TABLE t (a integer, b integer GENERATED ALWAYS AS (bad(a)) STORED)",
        "INSERT INTO t VALUES (1)",
    ),
    "check": (bad() + "CREATE TABLE t (a integer CHECK (bad(a) = 1))", "INSERT INTO t VALUES (1)"),
    "domain": (bad() + "CREATE DOMAIN d AS integer CHECK (bad(VALUE) = 1)", "SELECT 1::d"),
    "array of a domain": (bad() + "CREATE DOMAIN d AS integer CHECK (bad(VALUE) = 1)", "SELECT '{1}'::d[]"),
    "columns of a function": (
        bad() + "CREATE DOMAIN d AS integer CHECK (bad(VALUE) = 1)",
        "SELECT * FROM json_to_record('{\"a\": 1}') AS x(a d)",
    ),
    "constant of a row with a domain": (
        bad() + "CREATE DOMAIN d AS integer CHECK (bad(VALUE) = 1); CREATE TABLE t (a d); INSERT INTO t VALUES (1)",
        "SELECT 1 WHERE '(2)'::t IS NULL",
    ),
    "constant of a column": (
        bad() + "CREATE DOMAIN d AS integer CHECK (bad(VALUE) = 1); CREATE TABLE t (a d[])",
        "SELECT 1 FROM t WHERE a = '{1}'",
    ),
    "constant of a column that a function gives": (
        bad() + DOMAIN + "CREATE FUNCTION f(OUT a d[], OUT b integer) LANGUAGE sql AS 'SELECT NULL::d[], 1'",
        "SELECT 1 FROM f() WHERE a = '{1}'",
    ),
    "constant of a column of a function's table": (
        bad() + DOMAIN + "CREATE FUNCTION f() RETURNS TABLE (a d[], b integer) LANGUAGE sql AS 'SELECT NULL::d[], 1'",
        "SELECT 1 FROM f() x WHERE x.a = '{1}'",
    ),
    "constant beside an operator's result": (
        bad() + DOMAIN + "CREATE FUNCTION f(integer, integer) RETURNS d[] LANGUAGE sql AS 'SELECT NULL::d[]';"
        "CREATE OPERATOR === (FUNCTION = f, LEFTARG = integer, RIGHTARG = integer)",
        "SELECT (1 === 2) = '{1}'",
    ),
    "constant of an aggregate": (
        bad() + "CREATE DOMAIN d AS integer CHECK (bad(VALUE) = 1); CREATE TABLE t (a d)",
        "SELECT 1 FROM t HAVING array_agg(a) = '{1}'",
    ),
    "composite with a domain": (
        bad() + "CREATE DOMAIN d AS integer CHECK (bad(VALUE) = 1); CREATE TYPE pair AS (a d)",
        "SELECT json_populate_record(NULL::pair, '{\"a\": 1}')",
    ),
    "index expression": (
        bad() + "CREATE TABLE t (a integer); CREATE INDEX i ON t (bad(a))",
        "INSERT INTO t VALUES (1)",
    ),
    "index predicate": (
        bad() + "CREATE TABLE t (a integer); CREATE INDEX i ON t (a) WHERE bad(a) = 1",
        "INSERT INTO t VALUES (1)",
    ),
    "view": (bad() + "CREATE VIEW v AS SELECT bad(1) AS a", "SELECT * FROM v"),
    "view of a view": (
        bad() + "CREATE VIEW v AS SELECT bad(1) AS a; CREATE VIEW w AS SELECT * FROM v",
        "SELECT 1 FROM customers JOIN w ON true",
    ),
    "rule": (
        bad() + "CREATE TABLE t (a integer); CREATE RULE r AS ON INSERT TO t DO ALSO SELECT bad(1)",
        "INSERT INTO t VALUES (1)",
    ),
    "trigger": (
        bad("", "trigger", "NEW")
        + "CREATE TABLE t (a integer); CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION bad()",
        "INSERT INTO t VALUES (1)",
    ),
    "trigger's condition": (
        bad()
        + "CREATE TABLE t (a integer); CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW WHEN (bad(NEW.a) = 1) "
        + "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "UPDATE t SET a = 1",
    ),
    "trigger of a cascade": (
        bad("", "trigger", "OLD") + "CREATE TRIGGER g BEFORE DELETE ON orders FOR EACH ROW EXECUTE FUNCTION bad()",
        "DELETE FROM customers WHERE id = 1",
    ),
    "trigger of truncate": (
        bad("", "trigger", "NULL") + "CREATE TRIGGER g BEFORE TRUNCATE ON log EXECUTE FUNCTION bad()",
        "TRUNCATE log",
    ),
    "trigger of a partition": (
        bad("", "trigger", "NEW") + "CREATE TABLE t (a integer) PARTITION BY LIST (a);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1);"
        "CREATE TRIGGER g BEFORE INSERT ON t1 FOR EACH ROW EXECUTE FUNCTION bad()",
        "INSERT INTO t VALUES (1)",
    ),
    "partition key": (
        bad() + "CREATE TABLE t (a integer) PARTITION BY LIST (bad(a)); CREATE TABLE t1 PARTITION OF t DEFAULT",
        "INSERT INTO t1 VALUES (1)",
    ),
    "row policy": (
        bad() + "ALTER TABLE customers ENABLE ROW LEVEL SECURITY; ALTER TABLE customers FORCE ROW LEVEL SECURITY;"
        "CREATE POLICY p ON customers USING (bad(id) = 1)",
        "SELECT * FROM customers",
    ),
    "row policy of new rows": (
        bad() + "ALTER TABLE log ENABLE ROW LEVEL SECURITY; ALTER TABLE log FORCE ROW LEVEL SECURITY;"
        "CREATE POLICY p ON log WITH CHECK (bad(1) = 1)",
        "INSERT INTO log VALUES ('x')",
    ),
    "aggregate": (
        bad("integer, integer") + "CREATE AGGREGATE total (integer) (SFUNC = bad, STYPE = integer, INITCOND = '0')",
        "SELECT total(id) FROM customers",
    ),
    "window": (
        bad("integer, integer") + "CREATE AGGREGATE total (integer) (SFUNC = bad, STYPE = integer, INITCOND = '0')",
        "SELECT total(id) OVER () FROM customers",
    ),
    "new index": (bad(), "CREATE INDEX ON customers (bad(id))"),
    "new check": (bad(), "ALTER TABLE customers ADD CHECK (bad(id) = 1)"),
    "new column": (bad(), "ALTER TABLE customers ADD COLUMN x integer DEFAULT bad(1)"),
    "new type": (bad(), "ALTER TABLE customers ALTER COLUMN id TYPE integer USING bad(id)"),
    "new table": (bad(), "CREATE TABLE x AS SELECT bad(1) AS a"),
    "into": (bad(), "SELECT bad(1) AS a INTO x"),
    "new view's rows": (bad(), "CREATE MATERIALIZED VIEW x AS SELECT bad(1) AS a"),
    "new partition": (
        bad() + "CREATE TABLE t (a integer) PARTITION BY LIST (a)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (bad(1))",
    ),
    "multirange of a domain": (
        bad() + DOMAIN + "CREATE TYPE dr AS RANGE (subtype = d, multirange_type_name = dmr); CREATE TABLE t (a dmr)",
        "INSERT INTO t VALUES ('{[1,3)}')",
    ),
    "index predicate that is read": (bad() + "CREATE TABLE t (a integer); " + INDEX, "SELECT * FROM t WHERE a = 3"),
    "index predicate that is explained": (
        bad() + "CREATE TABLE t (a integer); " + INDEX,
        "EXPLAIN SELECT * FROM t WHERE a = 3",
    ),
    "index expression that is read": (
        bad() + "CREATE TABLE t (a integer); CREATE INDEX i ON t ((a + bad(1)))",
        "SELECT * FROM t WHERE a = 3",
    ),
    "index of a materialized view": (
        bad() + "CREATE MATERIALIZED VIEW t AS SELECT 1 AS a; " + INDEX,
        "SELECT * FROM t WHERE a = 3",
    ),
    "statistics that are read": (bad() + STATISTICS, "SELECT * FROM t WHERE a + 1 = 3 AND b + 1 = 2"),
    "statistics of what is written": (bad() + STATISTICS, "DELETE FROM t WHERE a + 1 = 3 AND b + 1 = 2"),
    "partition key that is read": (
        bad() + "CREATE TABLE t (a integer) PARTITION BY LIST ((a + bad(1)));"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)",
        "SELECT * FROM t WHERE a = 3",
    ),
    "check of a child that is read": (
        bad() + "CREATE TABLE t (a integer); CREATE TABLE t1 (CHECK (a > bad(1))) INHERITS (t)",
        "SELECT * FROM t WHERE a = 3",
    ),
    "index of a parent": (
        bad()
        + "CREATE TABLE t (a integer PRIMARY KEY); INSERT INTO t VALUES (1); CREATE TABLE c (a integer REFERENCES t);"
        + INDEX,
        "INSERT INTO c VALUES (1)",
    ),
    "cast of a foreign key": (
        "CREATE TYPE mood AS ENUM ('sad');"
        + bad("mood")
        + "CREATE CAST (mood AS integer) WITH FUNCTION bad(mood) AS IMPLICIT;"
        "CREATE TABLE child (m mood REFERENCES customers (id))",
        "INSERT INTO child VALUES ('sad')",
    ),
    "trigger of a truncated table's children": (
        bad("", "trigger", "NULL")
        + "CREATE TABLE p (a integer PRIMARY KEY); CREATE TABLE c (a integer PRIMARY KEY REFERENCES p);"
        "CREATE TABLE cc (a integer REFERENCES c); CREATE TRIGGER g BEFORE TRUNCATE ON cc EXECUTE FUNCTION bad()",
        "TRUNCATE p CASCADE",
    ),
    "check of a typed table": (
        bad("bigint")
        + "CREATE TYPE pair AS (a integer); CREATE TABLE typed OF pair; ALTER TABLE typed ADD CHECK (bad(a) = 1);"
        "INSERT INTO typed VALUES (1)",
        "ALTER TYPE pair ALTER ATTRIBUTE a TYPE numeric CASCADE",
    ),
    "index of a typed table": (
        bad("bigint")
        + "CREATE TYPE pair AS (a integer, b integer); CREATE TABLE typed OF pair; CREATE INDEX ON typed (bad(b));"
        "INSERT INTO typed VALUES (1, 1)",
        "ALTER TYPE pair ALTER ATTRIBUTE a TYPE bigint CASCADE",
    ),
    "between": (COMPARED, "CREATE TABLE x AS SELECT 1 WHERE 'sad'::mood BETWEEN 1 AND 2"),
    "like": (COMPARED, "CREATE TABLE x AS SELECT 1 WHERE 'sad'::mood LIKE 1"),
    "in": (COMPARED, "CREATE TABLE x AS SELECT 1 WHERE 'sad'::mood IN (1, 2)"),
    "case": (COMPARED, "CREATE MATERIALIZED VIEW x AS SELECT CASE 'sad'::mood WHEN 1 THEN 2 END WITH DATA"),
    "between, into": (COMPARED, "SELECT 1 AS a INTO x WHERE 'sad'::mood BETWEEN 1 AND 2"),
    "between, in a check": (COMPARED + "CREATE TABLE t (m mood)", "ALTER TABLE t ADD CHECK (m BETWEEN 1 AND 2)"),
    "view below a view that is read": (
        bad("", "trigger", "NEW")
        + "CREATE TABLE t (a integer); INSERT INTO t VALUES (1); CREATE VIEW v2 AS SELECT a FROM t;"
        "CREATE VIEW v1 AS SELECT a FROM v2; CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION bad()",
        "INSERT INTO v1 SELECT a FROM v2",
    ),
    "commutator": (
        "CREATE FUNCTION good(integer, integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';"
        + bad("integer, integer", "boolean", "true")
        + "CREATE OPERATOR <== (FUNCTION = good, LEFTARG = integer, RIGHTARG = integer, COMMUTATOR = ==>);"
        "CREATE OPERATOR ==> (FUNCTION = bad, LEFTARG = integer, RIGHTARG = integer, COMMUTATOR = <==)",
        "SELECT 1 <== 2",
    ),
    "quoted name": (bad().replace("bad(", '"Bad Name"('), 'SELECT "Bad Name"(1)'),
}


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("way", WAYS)
def test_a_function_of_users_is_found_however_it_is_reached(shop: Shop, way: str) -> None:
    made, text = WAYS[way]
    shop.ask(made)
    shop.ask("SELECT setval('orders_id_seq', 3)")  # making it may have called the function
    problem = refused(shop, text)
    assert "is a function that a user of the database created" in problem.what, problem
    assert "`functions` of the connection" in problem.next_step
    assert shop.ask("SELECT last_value FROM orders_id_seq") == [(3,)]


@pytest.mark.req("PV-05")
def test_the_order_in_which_elements_are_compared_is_a_function_of_users_too(shop: Shop) -> None:
    shop.ask(
        "CREATE TYPE mood AS ENUM ('sad', 'ok');"
        + bad("mood, mood", value="0")
        + "CREATE OPERATOR CLASS mo DEFAULT FOR TYPE mood USING btree AS OPERATOR 1 < (anyenum, anyenum), "
        "FUNCTION 1 bad(mood, mood)",
        url=shop.admin,
    )
    problem = refused(shop, "SELECT ARRAY['sad'::mood] < ARRAY['ok'::mood]")
    assert "public.bad(public.mood,public.mood), which an operator class of public.mood calls," in problem.what
    assert shop.ask("SELECT last_value FROM orders_id_seq") == [(3,)]


@pytest.mark.req("PV-05")
def test_many_parameters_hide_nothing(shop: Shop) -> None:
    shop.ask(COMPARED)
    given = {f"p{number}": number for number in range(101)}
    every = " AND ".join(f"$p{number}::integer IS NOT NULL" for number in range(101))
    text = shop.text(f"SELECT 1 WHERE 'sad'::mood BETWEEN 1 AND 2 AND {every}", 1, parameters=given)
    with pytest.raises(RefusedError, match="is a function that a user of the database created"):
        shop.preview(text)
    assert shop.ask("SELECT last_value FROM orders_id_seq") == [(3,)]
    values = ", ".join(f"($p{number}::integer, 'x')" for number in range(101))
    text = shop.text(
        f"INSERT INTO customers (id, name) SELECT a + 100, b FROM (VALUES {values}) v(a, b)", 1, parameters=given
    )
    assert shop.preview(text).tables == (("public.customers", 101, 0, 0),)


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("more", [0, 101], ids=["few parameters", "many parameters"])
@pytest.mark.parametrize("made", ["TABLE text (LIKE holder)", "VIEW text AS TABLE holder"])
def test_a_temporary_type_does_not_hide_the_type_of_a_parameter(shop: Shop, made: str, more: int) -> None:
    """A column of it would be taken for the function of the same name."""
    shop.ask(bad("text", "text", "'x'") + "CREATE TABLE holder (bad integer)")
    given = {"x": "1", **{f"p{number}": number for number in range(more)}}
    columns = ", ".join(("bad($x)", *(f"$p{number}::integer" for number in range(more))))
    with pytest.raises(RefusedError, match=r"public.bad\(text\) is a function that a user of the database created"):
        shop.preview(f"CREATE TEMP {made}", shop.text(f"SELECT {columns}", 1, parameters=given))
    assert shop.ask("SELECT last_value FROM orders_id_seq") == [(3,)]


@pytest.mark.req("PV-05")
def test_operators_of_users_hinder_only_statements_that_could_use_them(shop: Shop) -> None:
    shop.ask(COMPARED)
    for text in (
        "CREATE TABLE x (a integer PRIMARY KEY, b text DEFAULT 'x' CHECK (b <> ''))",
        "ALTER TABLE customers ADD COLUMN z integer REFERENCES customers (id) ON DELETE CASCADE",
        "CREATE TABLE x AS SELECT city, count(*) FROM customers WHERE id BETWEEN 1 AND 2 GROUP BY city ORDER BY 1",
        "CREATE MATERIALIZED VIEW x AS (SELECT DISTINCT city FROM customers) WITH NO DATA",
        "CREATE VIEW x AS SELECT id, CASE id WHEN 1 THEN 2 END AS b FROM customers WITH CASCADED CHECK OPTION",
        "TRUNCATE log",
    ):
        assert shop.preview(text).actions[0].problem is None, text


@pytest.mark.req("PV-05")
@pytest.mark.parametrize(
    "name",
    ["pg_input_is_valid", "pg_input_error_info", "some_function_of_postgresql_99"],
)
def test_a_function_of_a_newer_server_is_refused_until_it_was_looked_at(name: str) -> None:
    assert why_refused(ServerFunction(6210, name, "pg_catalog", f"{name}(text,text)", "s", ""), ())


def test_the_aggregates_of_newer_servers_that_make_json_are_known() -> None:
    what = ("agg_strict", "object_agg_strict", "object_agg_unique", "object_agg_unique_strict")
    assert {f"{kind}_{one}" for kind in ("json", "jsonb") for one in what} <= MAKES_JSON
    assert parse_tree("({QUERY :commandType 1 :targetList ({JSONCONSTRUCTOREXPR :type 1 :args <>})})").makes_json
    assert not parse_tree("({QUERY :commandType 1 :targetList <>})").makes_json


@pytest.mark.req("PV-05")
def test_an_event_trigger_is_a_function_of_users_too(shop: Shop) -> None:
    shop.ask(
        "CREATE FUNCTION public.watches() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$;"
        "CREATE EVENT TRIGGER watcher ON ddl_command_start EXECUTE FUNCTION watches()",
        url=shop.admin,
    )
    assert (
        "public.watches(), which the event trigger watcher calls," in refused(shop, "CREATE TABLE x (a integer)").what
    )
    problem = refused(shop, "INSERT INTO orders (customer) VALUES (1)")
    assert "event triggers of the database would run when an apply copies the sequence" in problem.what
    assert shop.preview("UPDATE customers SET city = 'x'").tables == (("public.customers", 0, 3, 0),)
    refused(shop, "SELECT ts_rewrite('a', 'SELECT 1')")  # by its name
    refused(shop, "UPDATE pg_settings SET setting = '1'")
    shop.allow("public.watches")
    seen = shop.preview("CREATE TABLE x (a integer)")
    assert seen.actions[0].problem is None
    assert seen.why.startswith("statement 1 (CREATE) calls public.watches() by the event trigger watcher, and a roll")


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("named", ["public.fine", "public.fine(integer, text)", "public.fine(integer,text)"])
def test_a_person_can_name_a_function_of_the_database(shop: Shop, named: str) -> None:
    shop.ask("CREATE FUNCTION fine(integer, text) RETURNS integer LANGUAGE sql AS 'SELECT $1'")
    shop.allow("other.fine", "public.fine(text)", "public.fines")
    assert "public.fine(integer,text)" in refused(shop, "SELECT fine(1, 'x')").what
    shop.allow(named)
    seen = shop.preview("SELECT fine(1, 'x')")
    assert seen.was_explained
    assert seen.why.startswith("statement 1 (SELECT) calls public.fine(integer,text)")
    answer = shop.tried("SELECT fine(1, 'x')").actions[0].answer
    assert answer is not None
    assert answer.rows == (("1",),)


@pytest.mark.req("PV-05")
def test_an_extension_is_named_as_a_whole_for_what_it_says_is_stable(shop: Shop) -> None:
    if not shop.ask("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'"):
        pytest.skip("the server has no pg_trgm")
    shop.ask("CREATE EXTENSION pg_trgm", url=shop.admin)
    text = "SELECT name FROM customers WHERE name % 'Adda' AND similarity(name, 'Ada') > 0.1"
    refused(shop, text)
    shop.allow("extension:pg_trgm")
    assert shop.preview(text).actions[0].problem is None
    assert "public.set_limit(real)" in refused(shop, "SELECT set_limit(0.2)").what


@pytest.mark.req("PV-05")
def test_what_plans_use_every_day_is_allowed(shop: Shop) -> None:
    texts = (
        "SELECT lower(name), now(), count(*) OVER (), coalesce(city, '-') FROM customers ORDER BY 1 LIMIT 2",
        "SELECT json_agg(row_to_json(c)), max(id), string_agg(name, ',') FROM customers c",
        "SELECT * FROM pg_settings WHERE name = 'work_mem'",
        "SELECT count(*) FROM pg_stat_activity; SELECT * FROM pg_locks; SELECT * FROM pg_sequences",
        "SELECT table_name FROM information_schema.tables; SELECT * FROM information_schema.columns LIMIT 3",
        "SELECT * FROM customers TABLESAMPLE bernoulli (100)",
        "SELECT random() < 2, gen_random_uuid() IS NULL, clock_timestamp() > now(), to_tsvector('a b') @@ 'a'::tsquery",
        "INSERT INTO customers SELECT id + 100, name, city FROM customers ON CONFLICT (id) DO UPDATE SET city = 'x'",
        "WITH gone AS (DELETE FROM orders WHERE id = 1 RETURNING *) SELECT count(*) FROM gone",
        "MERGE INTO customers c USING (VALUES (1)) v(a) ON c.id = v.a WHEN MATCHED THEN UPDATE SET city = 'y'",
        (
            "CREATE TABLE made (id serial PRIMARY KEY, at timestamptz DEFAULT now(), u uuid DEFAULT gen_random_uuid());"
            " INSERT INTO made DEFAULT VALUES; ALTER TABLE made ADD COLUMN n integer GENERATED ALWAYS AS IDENTITY; "
            "CREATE INDEX ON made (date_trunc('day', at AT TIME ZONE 'UTC')); DROP TABLE made"
        ),
        "SELECT id FROM orders WHERE customer = $1::integer FOR UPDATE".replace("$1", "1"),
        "SELECT xmin, ctid, tableoid::regclass FROM customers; VALUES (1), (2); TABLE customers",
    )
    for text in texts:
        assert shop.preview(text).actions[0].problem is None, text
    parameters = {"who": "Ada", "n": 7}
    one = shop.text("UPDATE customers SET city = $n || 'x' WHERE name = $who", 1, parameters=parameters)
    assert shop.preview(one).tables == (("public.customers", 0, 1, 0),)


@pytest.mark.req("PV-05")
def test_without_the_right_to_make_temporary_things_names_are_looked_at(shop: Shop) -> None:
    with psycopg.connect(shop.admin, autocommit=True) as admin:
        (database,) = admin.execute("SELECT current_database()").fetchone() or ("",)
        admin.execute(f'REVOKE TEMPORARY ON DATABASE "{database}" FROM PUBLIC, {shop.role}'.encode())
    shop.ask(bad() + "CREATE VIEW v AS SELECT bad(1) AS a")
    assert "public.bad(integer)" in refused(shop, "SELECT * FROM v").what
    refused(shop, "SELECT bad(1)", reads_only=True)
    assert "ts_rewrite" in refused(shop, "SELECT ts_rewrite('a', 'SELECT 1')").what
    assert "catalog" in refused(shop, "UPDATE pg_settings SET setting = '1'").what
    assert shop.preview("SELECT lower(name) FROM customers").actions[0].problem is None
    assert shop.preview("UPDATE customers SET city = upper(name)").tables == (("public.customers", 0, 3, 0),)


@pytest.mark.req("PV-05")
@pytest.mark.parametrize(
    "entry, closest",
    [
        ("public.net_price(int)", "public.net_price(integer)"),
        ("public.net_prise", "public.net_price(integer)"),
        ("extension:no_such", ""),
    ],
)
def test_an_entry_that_names_no_function_is_reported_with_the_closest_function(
    shop: Shop, entry: str, closest: str
) -> None:
    shop.ask("CREATE FUNCTION net_price(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1'")
    shop.ask("CREATE FUNCTION other() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1'")
    shop.allow("public.other", entry)
    problem = refused(shop, "SELECT net_price(1)")
    assert f"The entry '{entry}' of `functions` names no function of this database" in problem.next_step
    assert (f"; the closest is '{closest}'." in problem.next_step) == bool(closest)
    assert "'public.other'" not in problem.next_step


# --- sequences -------------------------------------------------------------------------------------------------------

NUMBERED: Final = """
CREATE SEQUENCE other INCREMENT BY 7 CACHE 5;
SELECT setval('other', 21);
CREATE TABLE numbered (a serial PRIMARY KEY, b bigint GENERATED ALWAYS AS IDENTITY (INCREMENT BY 3),
  c integer DEFAULT nextval('other') + 1, d text);
INSERT INTO numbered (d) VALUES ('x');
CREATE VIEW numbers AS SELECT a, d FROM numbered;
"""
SEQUENCES: Final = "SELECT sequencename, last_value FROM pg_sequences ORDER BY 1"


@pytest.mark.req("PV-05")
@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO numbered (d) SELECT 'y' FROM generate_series(1, 100)",
        "INSERT INTO numbered DEFAULT VALUES",
        "INSERT INTO numbers (d) VALUES ('z')",
        "SELECT nextval('other'), nextval('numbered_a_seq')",
        "WITH new AS (INSERT INTO numbered (d) VALUES ('z') RETURNING a) SELECT * FROM new",
        "UPDATE numbered SET c = DEFAULT",
        "MERGE INTO numbered n USING (VALUES (9)) v(a) ON n.a = v.a WHEN NOT MATCHED THEN INSERT (d) VALUES ('m')",
        (
            "CREATE VIEW w2 AS SELECT * FROM numbered; CREATE VIEW w1 AS SELECT * FROM w2;"
            "INSERT INTO w1 (d) SELECT d FROM w2"
        ),
        (
            "CREATE VIEW w AS SELECT a, d FROM numbered; WITH x AS (INSERT INTO w (d) VALUES ('w')) "
            "INSERT INTO numbered (a, b, c, d) OVERRIDING SYSTEM VALUE VALUES (999, 1, 1, 'x')"
        ),
        "CREATE TABLE fresh (id serial, x text); INSERT INTO fresh (x) VALUES ('a'); SELECT nextval('fresh_id_seq')",
    ],
)
def test_a_preview_takes_no_number_from_a_sequence_and_apply_does(shop: Shop, text: str) -> None:
    shop.ask(NUMBERED)
    before = shop.ask(SEQUENCES)
    seen = shop.preview(text)
    assert seen.was_explained
    assert "takes numbers from the sequence public." in seen.why
    assert seen.actions[0].problem is None
    assert shop.ask(SEQUENCES) == before
    shop.preview(text, in_earnest=True)
    shop.explain(text)
    assert shop.ask(SEQUENCES) == before
    done = shop.apply(text)
    if done.transaction.xid:
        assert shop.ask(SEQUENCES) != before


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""], ids=["rows kept", "rows not kept"])
@pytest.mark.parametrize("more", ["SELECT 1", "CREATE TABLE new (x text)"], ids=["rows only", "with structure"])
def test_an_apply_takes_each_number_of_a_sequence_once(shop: Shop, key: str, more: str) -> None:
    shop.ask(f"CREATE TABLE fresh (id serial {key}, x text)")
    shop.apply("INSERT INTO fresh (x) VALUES ('a'), ('b')", more)
    assert shop.ask("SELECT id FROM fresh ORDER BY id") == [(1,), (2,)]
    assert shop.ask("SELECT nextval('fresh_id_seq')") == [(3,)]


@pytest.mark.req("PV-05")
def test_the_first_pass_of_an_apply_holds_no_sequence_afterwards(shop: Shop) -> None:
    """Others may take numbers while the transaction of an apply is open."""
    with shop.begin("INSERT INTO orders (customer) VALUES (2)") as session:
        with shop.connected() as other:
            other.execute("SET lock_timeout = '5s'")
            assert other.execute("SELECT nextval('orders_id_seq')").fetchall() == [(5,)]
        session.commit()
    assert shop.ask("SELECT max(id) FROM orders") == [(4,)]


@pytest.mark.req("PV-05")
def test_a_default_that_a_foreign_key_sets_takes_its_number_from_a_copy(shop: Shop) -> None:
    shop.ask(
        "CREATE SEQUENCE other START 2; CREATE TABLE p (a integer PRIMARY KEY); INSERT INTO p VALUES (1), (2);"
        "CREATE TABLE c (a integer DEFAULT nextval('other') REFERENCES p ON DELETE SET DEFAULT);"
        "INSERT INTO c VALUES (1)"
    )
    before = shop.ask(SEQUENCES)
    with suppress(RemitError):  # a row without a parent
        shop.preview("WITH x AS (INSERT INTO c (a) VALUES (1)) DELETE FROM p WHERE a = 1")
    assert shop.ask(SEQUENCES) == before


@pytest.mark.req("PV-05")
def test_a_sequence_of_another_role_is_not_used_up_by_a_preview(shop: Shop) -> None:
    shop.ask("CREATE TABLE theirs (a serial, b text); GRANT ALL ON theirs TO PUBLIC", url=shop.admin)
    shop.ask("GRANT ALL ON SEQUENCE theirs_a_seq TO PUBLIC", url=shop.admin)
    seen = shop.preview("INSERT INTO theirs (b) VALUES ('x')")
    assert "takes numbers from the sequence public.theirs_a_seq" in seen.why
    assert shop.ask("SELECT last_value, is_called FROM theirs_a_seq", url=shop.admin) == [(1, False)]
    assert shop.preview("INSERT INTO theirs VALUES (1, 'x')").tables == (("public.theirs", 1, 0, 0),)


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("text", ["SELECT nextval(name::regclass) FROM customers", "SELECT nextval($s::regclass)"])
def test_a_sequence_must_be_named_by_a_constant(shop: Shop, text: str) -> None:
    one = shop.text(text, 1, parameters={"s": "orders_id_seq"} if "$s" in text else {})
    with pytest.raises(RefusedError, match="does not name as a constant"):
        shop.preview(one)


# --- at random -------------------------------------------------------------------------------------------------------

PIECES: Final = (
    "lower('A')",
    "random()",
    "now()",
    "nextval('orders_id_seq')",
    "nextval('other')",
    "setval('orders_id_seq', 500)",
    "pg_catalog.setval('other', 500)",
    "set_config('work_mem', '64kB', false)",
    "pg_advisory_lock(7)",
    "pg_try_advisory_lock_shared(8)",
    "pg_terminate_backend({pid})",
    "pg_cancel_backend({pid})",
    "lo_create(4711)",
    "pg_notify('a', 'b')",
    "ts_rewrite('a', $$SELECT 'a'::tsquery, setval('orders_id_seq', 600)::text::tsquery$$)",
    "ts_rewrite('a', $$SELECT 'a'::tsquery, pg_terminate_backend({pid})::text::tsquery$$)",
    "ts_rewrite('a'::tsquery, $$SELECT 'a'::tsquery, pg_advisory_lock(9)::text::tsquery$$::text)",
    "query_to_xml('SELECT setval(''other'', 700)', true, true, '')",
    "table_to_xml('sly', true, true, '')",
    "bad(1)",
    "public.bad(2)",
    "(SELECT a FROM sly)",
    "1 === 2",
    "'1'::tricky",
    "pg_create_physical_replication_slot('x')",
    "pg_export_snapshot()",
    "currval('orders_id_seq')",
    "(SELECT count(*) FROM orders)",
    "jsonb_build_object('a', 'sad'::mood)",
    "(SELECT max(a) FROM indexed WHERE a = 3)",
    "(SELECT count(*) FROM keyed WHERE a = 3)",
    "(SELECT count(*) FROM measured WHERE a + 1 = 3 AND b + 1 = 2)",
    "'{[1,3)}'::trickies",
    "('sad'::mood BETWEEN 1 AND 2)",
    "('sad'::mood IN (1, 2))",
)
SHAPES: Final = (
    "SELECT {one}, {two}",
    "SELECT 1 FROM customers WHERE {one} IS NULL OR {two} IS NOT NULL",
    "EXPLAIN SELECT {one} FROM orders",
    "SELECT {one}::text INTO made",
    "CREATE TABLE made AS SELECT {one} AS a",
    "CREATE INDEX ON customers ((({one})::text))",
    "ALTER TABLE customers ADD COLUMN x text DEFAULT ({one})::text",
    "INSERT INTO orders (customer) SELECT 1 FROM generate_series(1, 3) WHERE {one} IS NOT NULL",
    "INSERT INTO numbered (d) VALUES (({one})::text) RETURNING {two}",
    "INSERT INTO numbers (d) VALUES (({one})::text)",
    "UPDATE customers SET city = ({one})::text WHERE {two} IS NOT NULL",
    "DELETE FROM customers WHERE {one} IS NOT NULL",
    "WITH a AS (INSERT INTO orders (customer) VALUES (2) RETURNING {one}) SELECT {two} FROM a",
    "UPDATE pg_settings SET setting = '99' WHERE {one} IS NOT NULL",
    "WITH a AS (UPDATE pg_settings SET setting = 'off' WHERE name LIKE 'enable%') SELECT {one}",
    "SELECT * FROM customers ORDER BY {one} LIMIT 1 FOR UPDATE",
    "MERGE INTO numbered n USING (SELECT {one} AS a) v ON n.d = v.a::text WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
    "TRUNCATE orders RESTART IDENTITY; SELECT {one}",
    "SELECT 1; SELECT {one}; INSERT INTO orders (customer) VALUES (1)",
    (
        "CREATE VIEW w2 AS SELECT * FROM orders; CREATE VIEW w1 AS SELECT * FROM w2; INSERT INTO w1 (customer, total) "
        "SELECT customer, total FROM w2 WHERE {one} IS NOT NULL"
    ),
    (
        "CREATE VIEW w AS SELECT customer, total FROM orders; WITH x AS (INSERT INTO w (total) VALUES (1)) "
        "INSERT INTO orders (id, customer, total) SELECT 999, NULL, 1 WHERE {one} IS NOT NULL"
    ),
    "TRUNCATE indexed CASCADE; SELECT {one}",
    "INSERT INTO child SELECT 3 WHERE {one} IS NOT NULL",
    "ALTER TYPE pair ALTER ATTRIBUTE a TYPE numeric CASCADE; SELECT {one}",
    "DO $$ BEGIN PERFORM {one}; END $$",
    "SET work_mem = '64kB'; SELECT {one}",
)
HOSTILE: Final = (
    bad()
    + bad("integer, integer")
    + "CREATE OPERATOR === (FUNCTION = bad, LEFTARG = integer, RIGHTARG = integer);"
    + "CREATE VIEW sly AS SELECT bad(3) AS a; CREATE DOMAIN tricky AS integer CHECK (bad(VALUE) = 1);"
    + "CREATE TYPE mood AS ENUM ('sad');"
    + bad("mood", "json", "'1'")
    + "CREATE CAST (mood AS json) WITH FUNCTION bad(mood);"
    + bad("mood, integer", "boolean", "true")
    + "CREATE OPERATOR <= (FUNCTION = bad, LEFTARG = mood, RIGHTARG = integer);"
    + "CREATE OPERATOR >= (FUNCTION = bad, LEFTARG = mood, RIGHTARG = integer);"
    + "CREATE OPERATOR = (FUNCTION = bad, LEFTARG = mood, RIGHTARG = integer);"
    + "CREATE TABLE indexed (a integer PRIMARY KEY); CREATE INDEX ON indexed (a) WHERE bad(1) = 1;"
    + "CREATE TABLE child (a integer REFERENCES indexed);"
    + bad("", "trigger", "NULL")
    + "CREATE TRIGGER g BEFORE TRUNCATE ON child EXECUTE FUNCTION bad();"
    + "CREATE TABLE keyed (a integer) PARTITION BY LIST ((a + bad(1)));"
    + "CREATE TABLE keyed1 PARTITION OF keyed FOR VALUES IN (1);"
    + "CREATE TABLE measured (a integer, b integer) WITH (autovacuum_enabled = off);"
    + "INSERT INTO measured SELECT g, g FROM generate_series(1, 100) g;"
    + "CREATE STATISTICS st ON (a + bad(1)), (b + 1) FROM measured; ANALYZE measured;"
    + "CREATE TYPE tricky_range AS RANGE (subtype = tricky, multirange_type_name = trickies);"
    + bad("bigint")
    + "CREATE TYPE pair AS (a integer); CREATE TABLE typed OF pair; ALTER TABLE typed ADD CHECK (bad(a::bigint) = 1);"
    + "INSERT INTO typed VALUES (1);"
)


@pytest.mark.req("PV-05")
@pytest.mark.timeout(900)
def test_three_hundred_random_previews_leave_the_server_as_it_was(shop: Shop) -> None:
    shop.ask(HOSTILE + NUMBERED)
    rows = shop.dump()
    shop.ask("SELECT setval('orders_id_seq', 3)")  # looking at the rows has called functions, too
    made = random.Random(20_261_118)  # noqa: S311 - the same statements each time
    with psycopg.connect(shop.url, autocommit=True, application_name="bystander") as bystander:
        bystander.execute("SET work_mem = '5MB'; SELECT pg_advisory_lock(42)")
        pid = bystander.info.backend_pid
        before = shop.ask(WORLD, url=shop.admin)
        ran = 0
        for _ in range(300):
            one, two = (made.choice(PIECES).replace("{pid}", str(pid)) for _ in range(2))
            text = made.choice(SHAPES).replace("{one}", one).replace("{two}", two)
            try:
                shop.preview(text, reads_only=made.random() < 0.2, in_earnest=made.random() < 0.2)
                ran += 1
            except RemitError:
                pass
            after = shop.ask(WORLD, url=shop.admin)
            for _ in range(200):  # the server ends a session a moment after its client has left
                if after == before:
                    break
                time.sleep(0.05)
                after = shop.ask(WORLD, url=shop.admin)
            assert after == before, text
        assert bystander.execute("SHOW work_mem").fetchone() == ("5MB",)
        assert shop.dump() == rows
        assert ran > 20  # not all of it is refused


def test_the_border_between_built_in_and_others_is_the_servers(shop: Shop) -> None:
    (oldest,) = shop.ask("SELECT min(oid) FROM pg_class WHERE relname = 'customers'")[0]
    assert oldest >= FIRST_OF_USERS
