"""SQL in plans, as text: connections, files and order; what is refused before anything is looked at."""

from typing import Any, Final

import pytest

from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason
from remit.execution.decision import Denial
from remit.plans.policy.dependencies import needs_of
from remit.plans.policy.plan import decide_plan, needed_approvals
from remit.plans.policy.required_approvals import NO_APPROVALS
from remit.plans.policy.sql import MAX_SQL_ACTIONS, MAX_SQL_RULES, changed_paths, format_of, named_paths, touched_by
from tests.plans.policy.plans import ROOT, config, create, delete, modify, plan, rename

CONFIG: Final = config(
    connections={
        "duckdb": {"type": "duckdb", "path": "data//shop.duckdb"},
        "same": {"type": "duckdb", "path": "./data/shop.duckdb"},
        "other": {"type": "duckdb", "path": "data/other.duckdb"},
        "reading": {"type": "duckdb", "path": "data/shop.duckdb", "read_only": True},
        "secret": {"type": "duckdb", "path": "secrets.duckdb", "read_only": True},
        "memory": {"type": "duckdb"},
        "outside": {"type": "duckdb", "path": "../shop.duckdb"},
        "own": {"type": "duckdb", "path": "agent_outputs/shop.duckdb"},
        "server": {"type": "postgresql", "url_variable": "SHOP_URL"},
    }
)


def sql(action_id: str, *needs: str, **operation: Any) -> dict[str, Any]:
    action: dict[str, Any] = {"action_id": action_id, "action_type": "SQL_EXECUTE", "depends_on": list(needs)}
    if "target" in operation:
        action["target"] = operation.pop("target")
    if "query_file" not in operation:
        operation["query"] = "SELECT 1"
    return {**action, "operation": {"type": "sql_execute", **operation}}


def denials(built: Plan) -> tuple[Denial, ...]:
    found = decide_plan(built, CONFIG, ROOT, NO_APPROVALS).denials
    assert all(denial.what and denial.where and denial.next_step for denial in found)
    return found


def only(built: Plan) -> Denial:
    (denial,) = denials(built)
    return denial


@pytest.mark.req("PX-18", "PX-34")
def test_the_paths_that_an_action_changes_and_names_are_known() -> None:
    built = plan(
        sql("a"),
        sql("b", save_results_to="./out//x.csv", query_file="q.sql"),
        sql("c", connection="memory", save_results_to="y.json"),
        delete("d", "old"),
    ).action_plan
    assert [list(changed_paths(one, CONFIG)) for one in built] == [
        ["data/shop.duckdb"],
        ["out/x.csv"],
        ["y.json"],
        ["old"],
    ]
    assert [list(named_paths(one, CONFIG)) for one in built] == [
        ["data/shop.duckdb"],
        ["out/x.csv", "data/shop.duckdb", "q.sql"],
        ["y.json"],
        ["old"],
    ]
    assert decide_plan(plan(sql("a")), CONFIG, ROOT, NO_APPROVALS).allowed


@pytest.mark.req("PX-18")
def test_actions_on_one_database_are_in_order_whatever_their_connections_are_called() -> None:
    built = plan(
        sql("a"),
        sql("b", connection="other"),
        sql("c", connection="same"),
        sql("d", connection="reading", save_results_to="x.csv"),
        sql("e", connection="memory", save_results_to="y.csv"),
        create("f", "z.txt"),
    ).action_plan
    assert needs_of(built, touched_by(CONFIG)) == {0: (), 1: (), 2: (0,), 3: (2,), 4: (), 5: ()}


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "operation, reason, where, words",
    [
        ({"connection": "nobody"}, Reason.CAPABILITY_UNSUPPORTED, "connection", "no connection called 'nobody'"),
        ({"connection": "server", "target": "x"}, Reason.MALFORMED, "target", "PostgreSQL"),
        ({"connection": "memory"}, Reason.MALFORMED, "save_results_to", "the result is lost"),
        ({"target": "other.duckdb"}, Reason.MALFORMED, "target", "data//shop.duckdb"),
        ({"target": "x", "connection": "memory", "save_results_to": "x.csv"}, Reason.MALFORMED, "target", "in memory"),
        ({"save_results_to": "rows.txt"}, Reason.MALFORMED, "save_results_to", "suffix"),
        ({"save_results_to": "csv"}, Reason.MALFORMED, "save_results_to", "suffix"),
    ],
)
def test_an_action_that_cannot_be_meant_is_refused_with_its_field(
    operation: dict[str, Any], reason: Reason, where: str, words: str
) -> None:
    denial = only(plan(sql("a1", **operation)))
    assert (denial.reason, denial.where) == (reason, f"action a1, {where}")
    assert words in denial.what


@pytest.mark.req("PX-18")
def test_the_target_may_be_spelled_out() -> None:
    assert denials(plan(sql("a", target="data/./shop.duckdb"))) == ()


@pytest.mark.req("PX-05", "PX-34")
def test_no_path_of_an_action_leads_out_or_to_what_remit_keeps(subtests: pytest.Subtests) -> None:
    for operation in [
        {"connection": "outside"},
        {"connection": "outside", "save_results_to": "x.csv"},
        {"connection": "own"},
        {"save_results_to": "../x.csv"},
        {"save_results_to": "/srv/x.csv"},
        {"save_results_to": "agent_outputs/x.csv"},
        {"query_file": "../q.sql"},
        {"query_file": "/etc/passwd"},
        {"query_file": "a/../q.sql"},
        {"query_file": "agent_outputs/reports/q.sql"},
        {"query_file": "remit.yaml"},
    ]:
        with subtests.test(operation=operation):
            assert only(plan(sql("a1", **operation))).reason is Reason.PATH_REFUSED


@pytest.mark.req("PX-06", "PX-34")
def test_protected_files_that_are_only_read_need_an_approval_too() -> None:
    built = plan(
        sql("a", query_file="secrets.sql", save_results_to="credentials.json"),
        sql("b", connection="secret", save_results_to="x.csv"),
    )
    assert needed_approvals(built, CONFIG).protected == ("credentials.json", "secrets.sql", "secrets.duckdb")
    assert {denial.reason for denial in denials(built)} == {Reason.PROTECTED}


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "other",
    [
        modify("b", "data/shop.duckdb"),
        delete("b", "data/shop.duckdb"),
        rename("b", "x", "data/shop.duckdb"),
        create("b", "data/./shop.duckdb.wal"),
        create("b", "out.csv"),
        rename("b", "out.csv", "x.csv"),
    ],
)
def test_no_other_action_names_a_database_its_log_or_the_results(other: dict[str, Any]) -> None:
    found = denials(plan(sql("a", save_results_to="out.csv"), other))
    assert [(one.reason, one.next_step) for one in found] == [(Reason.PATH_REFUSED, "Split it into two plans.")]
    assert found[0].where.startswith("action b")


@pytest.mark.req("PX-18")
def test_two_actions_do_not_save_to_one_file() -> None:
    denial = only(plan(sql("a", save_results_to="out.csv"), sql("b", save_results_to="./out.csv")))
    assert (denial.reason, denial.where) == (Reason.PATH_REFUSED, "action a, save_results_to")


@pytest.mark.req("PX-18")
def test_rows_are_not_saved_over_a_database_of_the_plan() -> None:
    settings = {"a": {"type": "duckdb", "path": "a.json"}, "duckdb": {"type": "duckdb", "path": "b.duckdb"}}
    built = plan(sql("x", connection="a"), sql("y", save_results_to="a.json"))
    found = decide_plan(built, config(connections=settings), ROOT, NO_APPROVALS).denials
    assert [(one.reason, one.where) for one in found] == [(Reason.PATH_REFUSED, "action y, save_results_to")]


@pytest.mark.req("PX-18", "PX-34")
@pytest.mark.parametrize(
    "other",
    [modify("b", "q.csv"), create("b", "q.csv"), delete("b", "q.csv"), sql("b", save_results_to="q.csv")],
)
def test_a_plan_does_not_change_a_text_that_it_runs(other: dict[str, Any]) -> None:
    denial = only(plan(sql("a", query_file="./q.csv"), other))
    assert (denial.reason, denial.where) == (Reason.PATH_REFUSED, "action a, query_file")


@pytest.mark.req("PX-26")
def test_sql_actions_and_their_files_are_limited_in_number() -> None:
    assert denials(plan(*(sql(f"a{n}") for n in range(MAX_SQL_ACTIONS)))) == ()
    many = only(plan(*(sql(f"a{n}") for n in range(MAX_SQL_ACTIONS + 1))))
    assert (many.reason, many.where) == (Reason.LIMIT_EXCEEDED, "action_plan")
    small = config(connections=CONFIG.tree()["connections"], limits={"max_files": 2})
    files = plan(*(sql(f"a{n}", save_results_to=f"{n}.csv") for n in range(3)))
    assert [one.reason for one in decide_plan(files, small, ROOT, None).denials] == [Reason.LIMIT_EXCEEDED]


@pytest.mark.req("PX-18")
def test_the_suffix_says_how_rows_are_saved() -> None:
    assert [format_of(path) for path in ("a.parquet", "a/b.CSV", "x.y.json", "csv", "a.csv/b", ".json")] == [
        "parquet",
        "csv",
        "json",
        None,
        None,
        "json",
    ]


def expect(connection: str = "duckdb") -> dict[str, Any]:
    return {"type": "sql_expect", "query": "SELECT 1", "connection": connection, "expected": [[1]]}


@pytest.mark.req("PX-18")
def test_a_rule_about_rows_names_a_connection_that_has_a_file() -> None:
    held = [expect(), expect("reading"), expect("other")]
    assert denials(plan(sql("a"), validation_rules=held)) == ()
    assert denials(plan(create("a", "x"), validation_rules=held)) == ()
    refused = {
        "nowhere": Reason.CAPABILITY_UNSUPPORTED,
        "server": Reason.CAPABILITY_UNSUPPORTED,
        "memory": Reason.MALFORMED,
    }
    for name, reason in refused.items():
        denial = only(plan(create("a", "x"), validation_rules=[*held, expect(name)]))
        assert (denial.reason, denial.where) == (reason, "validation_rules, 3, connection")
        assert "this action" not in denial.next_step


@pytest.mark.req("PX-18", "PX-34")
def test_the_database_of_a_rule_is_held_to_the_rules_for_paths() -> None:
    for name in ("outside", "own"):
        denial = only(plan(create("a", "x"), validation_rules=[expect(), expect(name)]))
        assert (denial.reason, denial.where.startswith("validation_rules, 1: ")) == (Reason.PATH_REFUSED, True)
    built = plan(create("a", "x"), validation_rules=[expect("secret")])
    assert needed_approvals(built, CONFIG).protected == ("secrets.duckdb",)
    assert only(built).reason is Reason.PROTECTED


@pytest.mark.req("PX-26")
def test_rules_about_rows_are_counted() -> None:
    assert denials(plan(create("a", "x"), validation_rules=[expect()] * MAX_SQL_RULES)) == ()
    denial = only(plan(create("a", "x"), validation_rules=[expect()] * (MAX_SQL_RULES + 1)))
    assert (denial.reason, denial.where) == (Reason.LIMIT_EXCEEDED, "validation_rules")
