"""Rules about rows: checked on the database as the plan has left it; one that does not hold takes everything back."""

import importlib.util
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from remit.contracts.plans.outcome import PlanOutcome
from remit.contracts.plans.status import StatusUpdate
from remit.core.errors import Reason, RefusedError
from tests.plans.project import at_phase, create, plan_of, ran, refused, replace
from tests.plans.sql.shop import CONNECTIONS, DATABASE, Shop, held_open, make_database, sql
from tests.plans.sql.test_bounds import ENDLESS
from tests.plans.sql.test_changes import UPDATE
from tests.plans.sql.test_secrets import WORDS, everything_kept
from tests.plans.test_recovery import APPLY
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.patience import SOON

ALL_DONE = "SELECT state, count(*) AS n FROM orders GROUP BY state"
OTHER = {"other": {"type": "duckdb", "path": "other.duckdb"}}

pytestmark = pytest.mark.req("PX-11", "PX-18")


def expect(query: str, *expected: list[Any], **more: Any) -> dict[str, Any]:
    return {"type": "sql_expect", "query": query, "expected": list(expected), **more}


def changes(*rules: dict[str, Any], **more: Any) -> bytes:
    """Two files and the database."""
    return plan_of(replace("a1", "notes.txt"), create("a2", "made/new.txt"), sql("a3", UPDATE), rules=rules, **more)


def require_taken_back(shop: Shop, plan: bytes, **hooks: Any) -> tuple[int, str]:
    """The code and the words; everything is as before, byte for byte. That it would fail was known."""
    shop.write("notes.txt")
    before = shop.tree()
    outcome = shop.apply_despite_rules(plan, **hooks)
    assert outcome.status.status == "ROLLED_BACK", outcome
    assert shop.tree() == before
    assert not list(shop.root.rglob(".remit-*"))
    assert shop.workspace.verify_ledger().holds
    (error,) = outcome.errors
    return error.error_code, error.message


# --- it holds --------------------------------------------------------------------------------------------------------


def test_a_rule_that_holds_lets_the_plan_stand(shop: Shop) -> None:
    shop.write("notes.txt")
    before = shop.tree()
    rules = [
        expect(ALL_DONE, ["done", 3]),
        {"type": "file_exists", "path": "made/new.txt"},
        expect("SELECT id FROM orders WHERE amount > $least ORDER BY id DESC", [3], [2], parameters={"least": 15}),
        expect("SELECT id FROM orders WHERE state = 'open'"),
        expect("SELECT shop.main.orders.id FROM orders WHERE id = ?", [1.0], parameters={"1": 1}, connection="reading"),
    ]
    document = shop.workspace.preview(changes(*rules)).document
    assert document.status == "READY", document
    assert document.rules[0] == f"sql_expect {DATABASE}: its query returns exactly the 1 row in the plan"
    assert document.rules[3] == f"sql_expect {DATABASE}: its query returns no row"
    outcome = shop.apply(changes(*rules))
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert shop.rows("SELECT DISTINCT state FROM orders") == [("done",)]
    shop.workspace.rollback("last")
    assert shop.tree() == before


def test_the_plan_need_not_touch_the_database(open_shop: Callable[..., Shop]) -> None:
    shop = open_shop(connections={**CONNECTIONS, **OTHER})
    make_database(shop.root / "other.duckdb", "CREATE TABLE t AS SELECT 7 AS a")
    shop.write("notes.txt")
    before = shop.tree()
    rule = expect("SELECT a FROM t", [7], connection="other")
    envelope = shop.approve(plan_of(replace("a1", "notes.txt"), rules=[rule]))
    assert [item.path for item in envelope.inputs] == ["notes.txt"]
    assert ran(shop.workspace.apply(envelope.canonical())).status.status == "SUCCESS"
    assert shop.tree() == {**before, "notes.txt": shop.tree()["notes.txt"]}  # the database is only read


def test_a_rule_can_query_a_database_that_the_plan_makes(shop: Shop) -> None:
    made = sql("a1", "CREATE TABLE t AS SELECT 7 AS a", connection="new")
    assert shop.apply(plan_of(made, rules=[expect("FROM t", [7], connection="new")])).status.status == "SUCCESS"


VALUES: Any = (
    ("sum(amount) FROM orders", 60),
    ("1.10::DECIMAL(10, 2)", 1.1),
    ("NULL", None),
    ("true", True),
    ("1e300", 1e300),
    ("9007199254740993", "9007199254740993"),
    ("'nan'::DOUBLE", "NaN"),
    ("DATE '2026-01-02'", "2026-01-02"),
    ("TIMESTAMP '2026-01-02 03:04:05'", "2026-01-02 03:04:05"),
    ("[1, NULL]", [1, None]),
    ("{'a': 1, 'b': 'x'}", {"a": 1, "b": "x"}),
    ("repeat('long', 200)", "long" * 200),
    ("'ä\"\\'", 'ä"\\'),
)


def test_values_are_compared_as_json_has_them(shop: Shop) -> None:
    """All by rules of one plan: each that does not hold would take it back, with its number."""
    rules = [expect(f"SELECT {query}", [value]) for query, value in VALUES]
    outcome = shop.apply(plan_of(create("a1", "x.txt"), rules=rules))
    assert outcome.status.status == "SUCCESS", outcome.errors


# --- it does not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expected, words",
    [
        ([], "it returns 3 rows, and 0 are expected"),
        ([[1], [2]], "it returns 3 rows, and 2 are expected"),
        ([[1], [2], [3]], "row 1 has 2 columns, and 1 is expected"),
        ([[1, "done"], [2, "open"], [3, "done"]], "row 2, column 2 is not as expected"),
        ([[2, "done"], [1, "done"], [3, "done"]], "row 1, column 1 is not as expected"),
        ([[True, "done"], [2, "done"], [3, "done"]], "row 1, column 1 is not as expected"),
        ([["1", "done"], [2, "done"], [3, "done"]], "row 1, column 1 is not as expected"),
    ],
)
def test_a_rule_that_does_not_hold_undoes_files_and_database(kept_shop: Shop, expected: list[Any], words: str) -> None:
    first = {"type": "file_exists", "path": "notes.txt"}
    code, told = require_taken_back(
        kept_shop,
        changes(first, expect("SELECT id, state FROM orders ORDER BY id", *expected), rollback_on_failure=False),
    )
    assert code == 1201
    assert f"rule 2 of 2 (sql_expect) does not hold: {words}" in told
    assert kept_shop.rows("SELECT count(*) FROM orders WHERE state = 'open'") == [(2,)]


def test_the_other_rules_keep_their_numbers(kept_shop: Shop) -> None:
    rules = [expect("SELECT 1", [1]), {"type": "file_exists", "path": "nowhere.txt"}]
    assert "rule 2 of 2 (file_exists) does not hold" in require_taken_back(kept_shop, changes(*rules))[1]


def test_a_rule_about_a_missing_database_does_not_hold(kept_shop: Shop) -> None:
    for query in ("SELECT 1", "SELECT a FROM t"):
        _, told = require_taken_back(kept_shop, changes(expect(query, [1], connection="new")))
        assert "does not hold: the database does not exist" in told


@pytest.mark.parametrize(
    "query, code, words",
    [
        ("SELECT a FROM nowhere", 1111, "Table with name nowhere does not exist"),
        ("SELECT state::INTEGER FROM orders", 1111, "a value cannot be converted"),
        ("SELECT error(password) FROM people", 1111, "could not be checked"),
        ("SELEC 1", 1110, "could not be checked"),
        ("", 0, ""),
        ("SELECT $x", 1110, "'x' is used and has no value"),
    ],
)
def test_a_query_that_fails_undoes_the_plan(kept_shop: Shop, query: str, code: int, words: str) -> None:
    if not query:  # the contract's business
        with pytest.raises(RefusedError):
            kept_shop.workspace.preview(changes(expect(query)))
        return
    found, told = require_taken_back(kept_shop, changes(expect(query, [1])))
    assert found == code
    assert "rule 1 of 1 (sql_expect) could not be checked: " in told
    assert words in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM orders",
        "DELETE FROM orders RETURNING id",
        "SELECT 1; DROP TABLE orders",
        "SELECT 1; SELECT 1",
        "EXPLAIN SELECT 1",
        "ATTACH 'other.duckdb'",
        "COPY orders TO 'taken.csv'",
        "SELECT * FROM read_csv('../notes.txt')",
        "SELECT * FROM 'notes.txt'",
        "COMMIT",
    ],
)
def test_a_query_that_writes_or_reaches_out_is_refused(kept_shop: Shop, query: str) -> None:
    code, told = require_taken_back(kept_shop, changes(expect(query, [1])))
    assert (code, "could not be checked" in told) == (1110, True)


def test_a_macro_that_writes_fails_the_rule(shop: Shop) -> None:
    make_database(shop.database, "CREATE SEQUENCE s; CREATE MACRO hidden() AS nextval('s')")
    code, _ = require_taken_back(shop, changes(expect("SELECT hidden()", [1])))
    assert code == 1111


def test_a_macro_cannot_fake_the_compared_value(shop: Shop) -> None:
    """Values are compared by the engine's own function, whatever the database has under its name."""
    make_database(shop.database, "CREATE MACRO to_json(x) AS '42'::JSON")
    _, told = require_taken_back(shop, changes(expect("SELECT 1", [42])))
    assert "row 1, column 1 is not as expected" in told


# --- time, and others ------------------------------------------------------------------------------------------------


@pytest.mark.req("PX-25")
@pytest.mark.parametrize("limit", ["sql", "task"])
def test_a_query_has_its_time_and_no_more(open_shop: Callable[..., Shop], limit: str) -> None:
    shop = open_shop(timeouts={limit: 2})
    begun = time.monotonic()
    _, told = require_taken_back(shop, plan_of(create("a", "x.txt"), rules=[expect(ENDLESS, [1])]))
    assert "could not be checked: the SQL took longer than" in told
    assert f"timeouts.{limit}" in told
    assert time.monotonic() - begun < SOON


def test_a_plan_can_be_cancelled_while_a_rule_is_checked(open_shop: Callable[..., Shop]) -> None:
    shop, wanted = open_shop(timeouts={"sql": 3}), [True]
    listen = at_phase("VERIFYING", wanted.clear)
    plan = plan_of(create("a", "x.txt"), rules=[expect(ENDLESS, [1])])
    before = shop.tree()
    outcome = shop.apply_despite_rules(plan, on_status=listen, is_cancelled=lambda: not wanted)
    assert outcome.status.status == "CANCELLED", outcome
    assert shop.tree() == before


@pytest.mark.parametrize("name", ["nowhere", "server", "memory"])
def test_a_rule_can_query_only_connections_that_have_a_file(kept_shop: Shop, name: str) -> None:
    before = kept_shop.tree()
    with pytest.raises(RefusedError) as problem:
        kept_shop.workspace.preview(changes(expect("SELECT 1", [1], connection=name)))
    wanted = Reason.MALFORMED if name == "memory" else Reason.CAPABILITY_UNSUPPORTED
    assert problem.value.reason is wanted
    assert kept_shop.tree() == before


@pytest.mark.parametrize("how", ["written", "log"])
def test_a_rule_about_a_database_in_use_undoes_the_plan(open_shop: Callable[..., Shop], how: str) -> None:
    """One that the plan does not touch; of one that it does, nobody needs a rule to find out."""
    shop = open_shop(connections={**CONNECTIONS, **OTHER})
    other = shop.root / "other.duckdb"
    make_database(other, "CREATE TABLE t AS SELECT 7 AS a")
    plan = changes(expect("SELECT a FROM t", [7], connection="other"))
    if how == "log":
        shop.write("other.duckdb.wal", b"x")
        code, told = require_taken_back(shop, plan)
    else:
        with held_open(other):
            code, told = require_taken_back(shop, plan)
    assert code == 2011
    assert "rule 1 of 1 (sql_expect) could not be checked: this database is in use" in told


def test_a_rule_can_query_a_database_that_another_process_reads(open_shop: Callable[..., Shop]) -> None:
    shop = open_shop(connections={**CONNECTIONS, **OTHER})
    make_database(shop.root / "other.duckdb", "CREATE TABLE t AS SELECT 7 AS a")
    plan = plan_of(create("a", "x.txt"), rules=[expect("SELECT a FROM t", [7], connection="other")])
    with held_open(shop.root / "other.duckdb", read_only=True):
        assert shop.apply(plan).status.status == "SUCCESS"


def test_a_database_that_is_changed_while_its_rule_is_checked_undoes_the_plan(open_shop: Callable[..., Shop]) -> None:
    """By one who asks for no lock. It is told, whatever the query has given."""
    shop = open_shop(connections={**CONNECTIONS, **OTHER})
    other = shop.root / "other.duckdb"
    make_database(other, "CREATE TABLE t AS SELECT 7 AS a")
    shop.write("notes.txt")
    heard: list[str] = []

    def listen(update: StatusUpdate) -> None:
        if update.phase == "VERIFYING":
            heard.append(update.phase)
            if len(heard) >= 2:  # the first is from before
                os.utime(other)

    rows, outcome = 80_000_000, None
    while len(heard) < 2 and rows < 50_000_000_000:  # until this machine needs longer than a moment for it
        if outcome is not None:
            assert shop.workspace.rollback("last").status == "EXECUTED"
        rows *= 5
        heard.clear()
        slow = f"SELECT count(*) FROM range({rows}) WHERE hash(range) < 0"
        plan = plan_of(
            replace("a1", "notes.txt"), rules=[expect(slow, [0], connection="other")], plan_id=f"plan-{rows}"
        )
        outcome = shop.apply(plan, on_status=listen)
    assert len(heard) >= 2
    assert outcome is not None
    assert outcome.status.status == "ROLLED_BACK"
    assert "the database was changed while the rule was checked" in outcome.errors[0].message
    assert shop.read("notes.txt") == "one\ntwo\nthree\n"


def test_a_link_in_place_of_the_database_is_not_followed(open_shop: Callable[..., Shop]) -> None:
    shop = open_shop(connections={**CONNECTIONS, **OTHER})
    (shop.root / "other.duckdb").symlink_to(shop.database)
    shop.write("notes.txt")
    plan = plan_of(replace("a1", "notes.txt"), rules=[expect("SELECT 1", [1], connection="other")])
    outcome = shop.apply_despite_rules(plan)
    assert outcome.status.status == "ROLLED_BACK"
    assert shop.read("notes.txt") == "one\ntwo\nthree\n"


@pytest.mark.req("PX-34")
def test_the_rows_of_a_protected_database_need_an_approval(open_shop: Callable[..., Shop]) -> None:
    guarded = {"other": {"type": "duckdb", "path": "secrets.duckdb"}}
    shop = open_shop(connections={**CONNECTIONS, **guarded})
    make_database(shop.root / "secrets.duckdb", "CREATE TABLE t AS SELECT 7 AS a")
    plan = plan_of(create("a", "x.txt"), rules=[expect("SELECT a FROM t", [7], connection="other")])
    document = shop.workspace.preview(plan).document
    assert (document.status, document.needs.protected) == ("NEEDS_APPROVAL", ("secrets.duckdb",))
    with pytest.raises(RefusedError):
        shop.approve(plan)


# --- recovery, secrets, and what is missing --------------------------------------------------------------------------


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("holds", [True, False])
def test_recovery_checks_the_rules_too(shop: Shop, tmp_path: Path, holds: bool) -> None:  # noqa: FBT001
    shop.write("notes.txt")
    before = shop.tree()
    kept = tmp_path / "envelope.json"
    plan = changes(expect(ALL_DONE, ["done", 3 if holds else 4]))
    kept.write_bytes((shop.approve(plan) if holds else shop.approve_despite_rules(plan)).canonical())
    command = [preloaded.python(), "-c", APPLY, str(shop.root), str(kept)]
    assert run_child(command, fault=Fault("road.effect_done"), environment=shop.environ).killed
    assert shop.rows(ALL_DONE) == [("done", 3)]
    (report,) = shop.workspace.recover()
    assert isinstance(report.outcome, PlanOutcome), report.problem
    if holds:
        assert report.outcome.status.status == "SUCCESS", report.outcome.errors
    else:
        assert report.outcome.status.status == "ROLLED_BACK"
        assert "row 1, column 2 is not as expected" in report.outcome.errors[0].message
        assert shop.tree() == before
    assert not list(shop.root.rglob(".remit-*"))


@pytest.mark.parametrize("query", ["SELECT password FROM people", "SELECT password::INTEGER FROM people"])
def test_no_value_of_a_row_is_revealed(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture, query: str
) -> None:
    caplog.set_level(logging.DEBUG)
    require_taken_back(shop, plan_of(create("a", "x.txt"), rules=[expect(query, ["guessed"])]))
    assert WORDS[2] not in everything_kept(shop, tmp_path, caplog.text)


def test_without_duckdb_it_is_refused_before_anything_is_done(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(create("a", "x.txt"), rules=[expect("SELECT 1", [1])])
    envelope = shop.approve(plan).canonical()
    before, find = shop.tree(), importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "duckdb" else find(name, *more)
    )
    assert "remit[sql]" in refused(shop.workspace.apply(envelope))[1]
    assert shop.tree() == before


# --- which failures of SQL are about one action ----------------------------------------------------------------------


@pytest.mark.req("PX-10", "PX-22")
def test_a_plan_with_a_forbidden_statement_is_undone_as_a_whole(shop: Shop) -> None:
    shop.write("notes.txt")
    plan = plan_of(
        replace("a1", "notes.txt"),
        sql("a2", "COPY orders TO 'taken.csv'"),
        stop_on_error=False,
        rollback_on_failure=False,
    )
    before = shop.tree()
    assert shop.workspace.preview(plan).document.would_end == "ROLLED_BACK"
    outcome = shop.apply_despite_rules(plan)
    assert (outcome.status.status, [error.error_code for error in outcome.errors]) == ("ROLLED_BACK", [1110])
    assert shop.tree() == before


def test_a_macro_of_the_database_cannot_make_a_rule_hold(open_shop: Callable[..., Shop]) -> None:
    shop = open_shop()
    macros = """CREATE MACRO count_star() AS 1::BIGINT; CREATE MACRO to_json(a) AS '1';
        CREATE MACRO "left"(a, b) AS 'x'"""
    with duckdb.connect(str(shop.database)) as database:
        database.execute(macros)
    shop.write("notes.txt")
    rules = [expect("SELECT id FROM orders ORDER BY id", [1])]
    plan = plan_of(replace("a1", "notes.txt"), rules=rules)
    assert shop.apply_despite_rules(plan).status.status == "ROLLED_BACK"
    (told,) = shop.workspace.preview(plan_of(sql("a1", "SELECT id FROM orders ORDER BY id"))).document.sql
    assert (told.result_rows, told.rows[0][0]) == (3, "1")
