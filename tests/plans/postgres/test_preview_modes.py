"""What `preview: execute | explain | off` of a connection does on its server, what it shows, and what it binds."""

from collections.abc import Callable
from typing import Any, Final, cast

import psycopg
import pytest

from remit.contracts.config.config import PostgresqlConnection
from remit.contracts.plans.sql_report import SqlPreviewed
from remit.core.errors import RefusedError, RemitError
from remit.plans.engines.postgres import PostgresEngine
from remit.plans.engines.postgres_servers import find_server
from remit.plans.model.remote_part import RemotePart, parse_remote_part, render_remote_part
from remit.plans.preparation.remote_sql import PlanContext, Servers, prepare_statements
from tests.plans.postgres.postgres_project import DELETE, UPDATE, VARIABLE, Store, on_shop
from tests.plans.postgres.test_secrets import said
from tests.plans.project import at_phase, plan_of, ran, refused, replace

CONNECTION: Final[dict[str, Any]] = {"type": "postgresql", "url_variable": VARIABLE}
NUMBERED: Final = "CREATE TABLE numbered (id serial PRIMARY KEY, line text); INSERT INTO numbered (line) VALUES ('a')"
SIDE_EFFECT: Final = """
CREATE SEQUENCE calls;
CREATE TABLE watched (id integer PRIMARY KEY, line text);
INSERT INTO watched VALUES (1, 'a');
CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM nextval('calls'); INSERT INTO log VALUES ('called'); RETURN NEW; END $$;
CREATE TRIGGER counts BEFORE UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION counts();
CREATE FUNCTION sly(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM nextval('calls'); RETURN 1; END $$;
CREATE DOMAIN slyly AS integer CHECK (sly(VALUE) = 1);
"""
"""A function that says IMMUTABLE would be called by the planner."""
FUNCTIONS: Final = ["public.counts", "public.sly"]
TRIGGER: Final = (
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;"
    "CREATE TRIGGER t BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION f()"
)
CALLS: Final = "SELECT last_value, is_called FROM calls"


def mode(name: str, **more: Any) -> dict[str, Any]:
    return {"shop": {**CONNECTION, "preview": name, **more}}


def before_begin(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do this right before the statements of an apply run."""
    begin = PostgresEngine.begin

    def act_first(*arguments: Any, **more: Any) -> Any:
        act()
        return begin(*arguments, **more)

    monkeypatch.setattr(PostgresEngine, "begin", act_first)


def told(store: Store, *queries: str, **more: Any) -> list[SqlPreviewed]:
    actions = [on_shop(f"a{number}", query, **more) for number, query in enumerate(queries, start=1)]
    return list(store.workspace.preview(plan_of(*actions)).document.sql)


@pytest.mark.req("PV-05")
def test_a_server_is_asked_to_explain_unless_the_config_says_otherwise() -> None:
    assert PostgresqlConnection(type="postgresql", url_variable="SHOP_URL").preview == "explain"


# --- explain ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("PV-05")
def test_an_explained_plan_shows_tables_estimates_and_what_can_be_undone(open_store: Callable[..., Store]) -> None:
    store = open_store(connections={"shop": CONNECTION})
    change, remove, add, read = told(
        store, UPDATE, DELETE, "INSERT INTO log VALUES ('x')", "SELECT * FROM orders", expect_results=False
    )
    assert {one.computed for one in (change, remove, add, read)} == {"explained"}
    assert change.statements[0].writes == ("public.orders",)
    assert change.statements[0].rows_changed is None
    assert (change.statements[0].estimated_rows or 0) > 0
    assert change.tables == ()
    assert change.rows == read.rows == ()
    assert read.statements[0].reads == ("public.orders",)
    assert not read.changes_database
    assert add.irreversible == "public.log has no primary key"
    assert change.irreversible == "rows are rolled back together with those of a3, which cannot be"
    assert "ran none of them" in change.notes[0]
    assert store.world() == store.before


@pytest.mark.req("PV-05", "PX-29")
def test_an_explained_plan_is_applied_and_its_rows_are_counted_and_restored(open_store: Callable[..., Store]) -> None:
    store = open_store(connections={"shop": CONNECTION})
    outcome = store.apply(plan_of(replace("a1", "a.txt"), on_shop("a2", DELETE)))
    assert outcome.status.status == "SUCCESS"
    (report,) = outcome.report.sql
    assert report.computed == "explained"
    assert {one.table: one.deleted for one in report.tables} == {"public.people": 1, "public.orders": 2}
    assert outcome.manifest is not None
    assert outcome.manifest.rows is not None
    assert outcome.manifest.rows.irreversible is None
    assert store.state() == "after"
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.world() == store.before


@pytest.mark.req("PV-05")
@pytest.mark.parametrize(
    "query",
    [
        "UPDATE watched SET line = 'b'",
        "SELECT sly(1)",
        "SELECT 1 FROM watched WHERE id = sly(1)",
        "UPDATE watched SET line = 'b' WHERE sly(2) = 1",
        "SELECT '{1}'::slyly[]",
        "SELECT nextval('calls')",
        "CREATE TABLE more AS SELECT sly(id) FROM watched",
        "CREATE INDEX ON watched (sly(id))",
        "EXPLAIN SELECT sly(1)",
    ],
)
@pytest.mark.parametrize("name", ["explain", "execute"])
def test_no_function_of_the_database_is_called_by_a_preview(
    open_store: Callable[..., Store], query: str, name: str
) -> None:
    """A trigger and a function leave a mark in a sequence, which no rollback removes."""
    store = open_store(connections=mode(name, functions=FUNCTIONS))
    store.ask(SIDE_EFFECT)
    (report,) = told(store, query)
    assert report.computed == "explained"
    assert store.ask(CALLS) == [(1, False)]
    assert store.ask("SELECT count(*) FROM log") == [(0,)]
    if name == "execute":
        assert "runs only statements that a rollback undoes completely, and here statement 1 (" in report.notes[1]
    store.ask("UPDATE watched SET line = 'c'")  # it would have left a mark
    assert store.ask(CALLS) == [(1, True)]


@pytest.mark.req("PV-05")
def test_a_statement_after_the_one_that_makes_its_table_is_described_from_its_text(
    open_store: Callable[..., Store],
) -> None:
    store = open_store(connections={"shop": CONNECTION})
    made, filled, altered = told(
        store,
        "CREATE TABLE fresh (id integer PRIMARY KEY, line text)",
        "INSERT INTO fresh VALUES (1, 'x')",
        "ALTER TABLE orders ADD COLUMN more text; UPDATE orders SET more = state",
    )
    assert made.irreversible == "CREATE of fresh cannot be rolled back"
    assert filled.statements[0].writes == ("fresh",)
    assert filled.statements[0].estimated_rows is None
    assert "statement 1 (INSERT) is described from its text: it depends on an earlier statement" in filled.notes[1]
    assert "statement 2 (UPDATE) is described from its text" in altered.notes[1]
    assert store.world() == store.before


@pytest.mark.req("PV-05")
@pytest.mark.parametrize(
    "query, words",
    [
        ("SELECT * FROM missing", 'relation "missing" does not exist'),
        ("UPDATE orders SET stat = 'x'", 'column "stat" of relation "orders" does not exist'),
        ("CREATE TABEL x (a integer)", "it is about a TABEL"),
        ("CREATE TABLE x (a integer,,)", "syntax error"),
        ("DROP TABLE missing", "an object that it names does not exist"),
        ("TRUNCATE missing", "an object that it names does not exist"),
        ("SELECT pg_sleep(1)", "pg_sleep"),
        ("COMMIT", "already one transaction"),
        ("SELECT pg_advisory_lock(1)", "pg_advisory_lock reaches other sessions"),
    ],
)
def test_what_would_fail_is_known_without_a_run(open_store: Callable[..., Store], query: str, words: str) -> None:
    store = open_store(connections={"shop": CONNECTION})
    document = store.workspace.preview(plan_of(on_shop("a1", query), on_shop("a2", "SELECT 1"))).document
    assert document.status == "WOULD_FAIL"
    assert words in str(document)
    assert store.world() == store.before


@pytest.mark.req("PV-05")
@pytest.mark.parametrize(
    "alteration",
    [
        "ALTER TABLE orders ADD COLUMN more text",
        "ALTER TABLE orders ALTER COLUMN state SET DEFAULT 'open'",
        "ALTER TABLE orders ADD UNIQUE (total)",
        "CREATE INDEX ON orders (state)",
        "CREATE TABLE items (id integer PRIMARY KEY, o integer REFERENCES orders ON DELETE CASCADE)",
        TRIGGER,
        "CREATE RULE r AS ON UPDATE TO orders DO ALSO SELECT 1",
        "ALTER TABLE orders ENABLE ROW LEVEL SECURITY",
    ],
)
@pytest.mark.parametrize("is_late", [False, True], ids=["before apply", "right before the statements"])
def test_an_approval_of_an_explained_plan_is_void_when_a_table_is_altered(
    open_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch, alteration: str, *, is_late: bool
) -> None:
    store = open_store(connections=mode("explain", functions=["public.f"]))
    envelope = store.approve(plan_of(on_shop("a1", UPDATE))).canonical()
    rows = store.ask("SELECT id, state, total FROM orders ORDER BY id")
    if is_late:
        before_begin(monkeypatch, lambda: store.ask(alteration))
    else:
        store.ask(alteration)
    assert "a table of this plan is not what it was" in refused(store.workspace.apply(envelope))[1]
    assert "plan.intent" not in store.kinds()
    assert store.ask("SELECT id, state, total FROM orders ORDER BY id") == rows


@pytest.mark.req("PV-03", "PV-05")
@pytest.mark.parametrize("name", ["explain", "execute"])
def test_no_table_of_the_plan_can_be_altered_from_the_statements_to_commit(
    open_store: Callable[..., Store], name: str
) -> None:
    """Right before the first file is changed, the locks of the transaction are held."""
    store = open_store(connections=mode(name))
    envelope = store.approve(plan_of(replace("a1", "a.txt"), on_shop("a2", UPDATE))).canonical()
    altered: list[str] = []

    def alter() -> None:
        with pytest.raises(psycopg.errors.LockNotAvailable):
            store.ask("SET lock_timeout = 100; ALTER TABLE orders ADD COLUMN more text")
        altered.append("tried")

    outcome = ran(store.workspace.apply(envelope, on_status=at_phase("RUNNING", alter)))
    assert altered
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert store.ask("SELECT count(*) FROM orders WHERE state = 'paid'") == [(2,)]


@pytest.mark.req("PV-05")
def test_other_rows_do_not_void_an_approval_that_bound_no_rows(open_store: Callable[..., Store]) -> None:
    store = open_store(connections={"shop": CONNECTION})
    envelope = store.approve(plan_of(on_shop("a1", UPDATE))).canonical()
    store.ask("INSERT INTO orders VALUES (9, 1, 'open', 1)")
    outcome = ran(store.workspace.apply(envelope))
    assert outcome.status.status == "SUCCESS"
    assert outcome.report.sql[0].tables[0].updated == 3


@pytest.mark.req("PV-05")
def test_what_only_a_run_finds_out_is_refused_before_commit(open_store: Callable[..., Store]) -> None:
    """Two rows that have changed what is unique in them with each other cannot be restored."""
    store = open_store(connections={"shop": CONNECTION})
    store.ask("CREATE TABLE pairs (id integer PRIMARY KEY, u text UNIQUE); INSERT INTO pairs VALUES (1, 'a'), (2, 'b')")
    swap = (
        "UPDATE pairs SET u = 'c' WHERE id = 1; UPDATE pairs SET u = 'a' WHERE id = 2; "
        "UPDATE pairs SET u = 'b' WHERE id = 1"
    )
    rows = store.rows()
    code, message = refused(store.workspace.apply(store.approve(plan_of(on_shop("a1", swap))).canonical()))
    assert code == 2003, message
    assert "preview: execute" in message
    assert "plan.intent" not in store.kinds()
    assert store.rows() == rows


@pytest.mark.req("PV-05", "PX-20")
def test_rows_that_are_too_large_to_back_up_are_found_in_the_apply(open_store: Callable[..., Store]) -> None:
    store = open_store(connections={"shop": CONNECTION}, limits={"max_backup_bytes": 20_000})
    store.ask("UPDATE orders SET state = repeat('x', 30000) WHERE id = 1")
    rows = store.rows()
    plan = plan_of(replace("a1", "a.txt"), on_shop("a2", "UPDATE orders SET total = 1"))
    envelope = store.approve(plan).canonical()
    code, message = refused(store.workspace.apply(envelope))
    assert code == 1008, message
    assert "for rows on a server, and 20,000 are allowed" in message
    assert "limits.max_backup_bytes" in message
    assert store.rows() == rows
    assert store.tree() == store.before[0]
    assert list((store.root / "agent_outputs" / "reports").iterdir()) == []
    store.ask("UPDATE orders SET state = 'open' WHERE id = 1")
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PV-05", "PX-34")
def test_an_explained_preview_waits_for_no_writer_and_blocks_none(open_store: Callable[..., Store]) -> None:
    store = open_store(connections=mode("explain", lock_timeout_seconds=1))
    with store.held("UPDATE orders SET total = 0; UPDATE people SET note = 'x'"):
        assert [one.computed for one in told(store, UPDATE, DELETE)] == ["explained", "explained"]
    with store.held("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE"), pytest.raises(RemitError) as busy:
        told(store, UPDATE)
    assert "another session holds a lock on public.orders" in busy.value.what


@pytest.mark.req("PV-05")
def test_a_server_that_may_only_be_read_is_explained_too(open_store: Callable[..., Store]) -> None:
    store = open_store(connections=mode("explain", read_only=True))
    (report,) = told(store, "SELECT * FROM orders", expect_results=True)
    assert not report.changes_database
    assert report.irreversible is None
    assert "`expect_results`" in report.notes[-1]
    assert store.apply(plan_of(on_shop("a1", "SELECT * FROM orders"))).status.status == "SUCCESS"
    none = store.approve(plan_of(on_shop("a1", "SELECT * FROM orders WHERE id = 77", expect_results=True))).canonical()
    code, message = refused(store.workspace.apply(none))
    assert (code, "rows were expected" in message) == (1111, True), message
    store.ask("INSERT INTO orders VALUES (77, 1, 'open', 1)")
    assert ran(store.workspace.apply(none)).status.status == "SUCCESS"


# --- off -------------------------------------------------------------------------------------------------------------


@pytest.mark.req("PV-05")
def test_with_off_the_server_is_not_contacted(open_store: Callable[..., Store]) -> None:
    store = open_store(connections=mode("off"))
    url, store.environ[VARIABLE] = store.url, "postgresql://nobody:nothing@127.0.0.1:1/none"
    change, read = told(store, UPDATE, "SELECT * FROM orders")
    assert change.computed == read.computed == "not_computed"
    assert change.statements[0].reads is None
    assert change.statements[0].writes == ("orders",)
    assert change.texts == (UPDATE,)
    assert "it is unknown whether its changes can be rolled back" in (change.irreversible or "")
    assert read.irreversible is None
    plan = plan_of(on_shop("a1", UPDATE))
    assert store.workspace.preview(plan).document.needs.irreversible == ("a1",)
    envelope = store.approve(plan, irreversible=["a1"]).canonical()
    store.environ[VARIABLE] = url
    assert "is not what it was" in refused(store.workspace.apply(envelope))[1]  # the address is bound
    assert store.world() == store.before


@pytest.mark.req("PV-05")
def test_with_off_a_writing_action_must_be_named_in_the_approval(open_store: Callable[..., Store]) -> None:
    store = open_store(connections=mode("off"))
    plan = plan_of(on_shop("a1", UPDATE))
    with pytest.raises(RefusedError, match="the approval does not name it"):
        store.approve(plan)
    assert store.world() == store.before
    envelope = store.approve(plan, irreversible=["a1"]).canonical()
    outcome = ran(store.workspace.apply(envelope))
    assert outcome.status.status == "SUCCESS"
    assert outcome.report.sql[0].tables[0].updated == 2


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("query", ["COMMIT", "SELECT setval('x', 1)", "SELECT $missing", "UPDATE orders SET"])
def test_with_off_a_text_is_checked_as_far_as_it_can_be(open_store: Callable[..., Store], query: str) -> None:
    store = open_store(connections=mode("off"))
    document = store.workspace.preview(plan_of(on_shop("a1", query))).document
    assert (document.status == "WOULD_FAIL") == (query != "UPDATE orders SET")  # only the server knows the grammar


# --- execute ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("PV-05")
def test_with_execute_rows_are_bound_and_compared_before_commit(
    open_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other rows that appear right before the statements run: the plan is refused before its intent."""
    store = open_store(connections=mode("execute"))
    envelope = store.approve(plan_of(replace("a1", "a.txt"), on_shop("a2", UPDATE))).canonical()
    before_begin(monkeypatch, lambda: store.ask("INSERT INTO orders VALUES (9, 1, 'open', 1)"))
    code, message = refused(store.workspace.apply(envelope))
    assert (code, "not those that were approved" in message) == (1003, True), message
    assert "it would now change public.orders (3 updated)" in message
    assert "the approval stays valid" in message
    assert "plan.intent" not in store.kinds()
    assert store.ask("SELECT count(*) FROM orders WHERE state = 'paid'") == [(0,)]
    assert store.tree() == store.before[0]


@pytest.mark.req("PV-05")
def test_one_statement_that_is_not_run_makes_the_whole_part_explained(open_store: Callable[..., Store]) -> None:
    store = open_store(connections=mode("execute"))
    store.ask(NUMBERED)
    assert told(store, UPDATE)[0].computed == "executed"
    change, add = told(store, UPDATE, "INSERT INTO numbered (line) VALUES ('b')")
    assert change.computed == add.computed == "explained"
    assert "statement 1 (INSERT) takes numbers from the sequence public.numbered_id_seq" in change.notes[1]
    (harmless,) = told(store, "UPDATE people SET note = random()::text || gen_random_uuid() || clock_timestamp()")
    assert harmless.computed == "executed"


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("name", ["execute", "explain", "off"])
def test_a_name_is_allowed_only_if_all_its_overloads_are(open_store: Callable[..., Store], name: str) -> None:
    """Where there are no types, as in DDL. `lower` of a text is built in; a user has made one of an integer."""
    store = open_store(connections=mode(name))
    store.ask("CREATE FUNCTION lower(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1'")
    table = "CREATE TABLE x (a text DEFAULT lower('A'))"
    document = store.workspace.preview(plan_of(on_shop("a1", table))).document
    if name == "off":  # the catalog is not known: the check is made when the plan is applied
        envelope = store.approve(plan_of(on_shop("a1", table)), irreversible=["a1"]).canonical()
        code, problem = refused(store.workspace.apply(envelope))
        assert code == 1110
    else:
        assert document.status == "WOULD_FAIL"
        problem = str(document)
    assert "public.lower(integer) is a function that a user of the database created" in problem
    assert store.world() == store.before
    one = told(store, "SELECT lower('A')")[0]  # the server knows the types of a query
    assert one.computed == {"execute": "executed", "explain": "explained", "off": "not_computed"}[name]


@pytest.mark.req("PV-05")
@pytest.mark.parametrize("name", ["explain", "off"])
def test_rows_are_saved_to_a_file_only_where_a_preview_may_run(open_store: Callable[..., Store], name: str) -> None:
    store = open_store(connections=mode(name))
    with pytest.raises(RefusedError) as problem:
        told(store, "SELECT * FROM people", save_results_to="people.csv")
    assert f"the connection shop has `preview: {name}`, so no statement runs before" in problem.value.what
    assert "preview: execute" in problem.value.next_step


# --- without a look --------------------------------------------------------------------------------------------------


@pytest.mark.req("PV-03", "PV-05")
def test_statements_are_prepared_without_the_server(open_store: Callable[..., Store]) -> None:
    store = open_store(connections=mode("execute"))
    store.write("sql/change.sql", UPDATE.encode())
    action = on_shop("a2", query_file="sql/change.sql")
    plan = store.workspace.preview(plan_of(replace("a1", "a.txt"), action)).plan
    part = store.workspace.preview(plan_of(replace("a1", "a.txt"), action))
    store.environ[VARIABLE] = "postgresql://nobody:nothing@127.0.0.1:1/none"
    connection = store.workspace.config.connections["shop"]
    assert isinstance(connection, PostgresqlConnection)
    server = find_server("shop", connection, store.environ)
    no_engine = cast("PostgresEngine", None)
    servers = Servers(no_engine, no_engine, lambda _: server, store.folder)
    context = PlanContext(plan, store.workspace.config, str(store.root))
    found = prepare_statements(context, servers, 10.0, first_number=1)
    assert found is not None
    statements, read = found
    assert [text.text for text in statements.texts] == [UPDATE.encode()]
    assert [text.number for text in statements.texts] == [1]
    assert statements.preview == "execute"
    assert dict(read) == {
        item.path: item.input_digest for item in part.document.inputs if item.path == "sql/change.sql"
    }


def test_a_part_of_an_earlier_version_was_executed() -> None:
    part = RemotePart("shop", "shop at x", (), "sha256:" + "0" * 64, 0)
    tree = render_remote_part(part)
    assert tree is not None
    del tree["computed"]
    assert parse_remote_part(tree) == part
    assert parse_remote_part({**tree, "computed": "off"}) == part._replace(computed="off")


@pytest.mark.req("PV-05")
def test_people_see_what_was_not_run(open_store: Callable[..., Store]) -> None:
    store = open_store(connections={"shop": CONNECTION})
    path = store.folder / "plan.json"
    path.write_bytes(plan_of(on_shop("a1", UPDATE)))
    _, output = said(store, "preview", str(path))
    assert "rows, estimated" in output
    assert "about " in output
    assert "planned the statements and ran none of them" in " ".join(output.split())


def test_a_report_of_an_executed_preview_has_no_new_field(open_store: Callable[..., Store]) -> None:
    store = open_store(connections=mode("execute"))
    (report,) = told(store, UPDATE)
    assert {"computed", "notes"}.isdisjoint(report.tree())
    assert "estimated_rows" not in report.tree()["statements"][0]
