"""The SQL of a catalogue: what its door would refuse is found before anybody promotes it, without any database."""

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from remit.contracts.config.config import SystemConfig
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.goals.catalogue.catalogue import find_unknown_connections
from remit.goals.catalogue.deep_check import check_queries, check_with_queries
from remit.goals.catalogue.files import CatalogueFinding, Definition
from remit.plans.engines import sql_lint as sql_checking
from tests.goals.catalogue.simulations import ALL, LOOKUP, REFUND, changed, simulation
from tests.goals.goal_office import Office

CONNECTIONS: dict[str, dict[str, Any]] = {
    "replica": {"type": "duckdb", "path": "replica.duckdb", "read_only": True},
    "shop": {"type": "duckdb", "path": "shop.duckdb"},
    "server": {"type": "postgresql", "url_variable": "NO_SUCH_SERVER", "read_only": True},
}
CONFIG = SystemConfig.from_tree({"version": 1, "connections": CONNECTIONS})


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    broken = changed(LOOKUP, binding__query="SELEC 1 WHERE id = $order")
    made = Office(
        tmp_path_factory.mktemp("office"), simulations=(broken,), policy="", promoted=False, connections=CONNECTIONS
    )
    yield made
    made.close()


def no_sandbox() -> NoReturn:
    raise EnvironmentFailureError(Reason.SANDBOX_UNAVAILABLE, "there is no sandbox", next_step="See: remit doctor")


def found_in(office: Office, *trees: dict[str, Any]) -> list[CatalogueFinding]:
    definitions = [Definition("some.yaml", simulation(tree)) for tree in trees]
    return list(check_queries(definitions, CONFIG, lambda: office.workspace.sandboxes))


BROKEN = [
    ("SELEC * FROM orders WHERE id = $order", "the engine cannot read it: line 1: Parser Error"),
    ("SELECT * FROM orders\nWHERE id = = $order", "the engine cannot read it: line 2: Parser Error"),
    ("-- $order", "the text has no statement"),
    ("SELECT * FROM orders", "the parameter 'order' has a value and is not used"),
    ("SELECT $order, $other", "the parameter 'other' is used and has no value"),
    ("SELECT $order; DELETE FROM orders", "statement 2 (DELETE): it may change the database"),
    ("COPY orders TO 'x.csv'", "statement 1 (COPY)"),
    ("SELECT $order FROM read_csv('/etc/passwd')", "statement 1 (SELECT)"),
    ("ATTACH 'other.duckdb'", "statement 1 (ATTACH)"),
]


def test_a_query_that_its_operation_would_refuse_is_found_with_its_simulation_and_field(office: Office) -> None:
    trees = [changed(LOOKUP, id=f"s{number}", binding__query=query) for number, (query, _) in enumerate(BROKEN)]
    found = found_in(office, *trees, *ALL)
    assert [(each.file, each.simulation, each.field) for each in found] == [
        ("some.yaml", f"s{number}", "binding.query") for number in range(len(BROKEN))
    ]
    for (query, what), each in zip(BROKEN, found, strict=True):
        assert what in each.what, (query, each)
        assert each.next_step
    secret = changed(LOOKUP, binding__query="SELECT $order 'sesame-street-7' 'b'")
    assert "sesame" not in str(found_in(office, secret))


def test_queries_within_a_plan_are_looked_at_too(office: Office) -> None:
    action = {"action_id": "a", "action_type": "SQL_EXECUTE", "operation": {"type": "sql_execute"}}
    steps = [
        {**action, "operation": {**action["operation"], "connection": "shop", "query": query}}  # type: ignore[dict-item]
        for query in ("DELETE FROM orders", "DELETE FORM orders")
    ]
    steps[1]["action_id"] = "b"
    rule = {"type": "sql_expect", "connection": "shop", "query": "SELECT 1; SELECT 2", "expected": [[1]]}
    template = {"action_plan": steps, "validation_rules": [rule]}
    tree = changed(REFUND, binding={"type": "plan", "template": template})
    assert [(each.field, each.what.partition(":")[0]) for each in found_in(office, tree)] == [
        ("binding.action_plan[1].operation.query", "the engine cannot read it"),
        ("binding.validation_rules[0].query", "the query of a rule is one SELECT and nothing else"),
    ]


def test_for_a_server_the_rules_are_its_own_and_no_sandbox_is_needed() -> None:
    queries = ["SELECT $order::text", "SELEC $order", "SELECT 1", "DELETE FROM a WHERE b = $order", "VACUUM"]
    trees = [changed(LOOKUP, binding__query=query, binding__connection="server") for query in queries]
    found = check_queries([Definition("f", simulation(tree)) for tree in trees], CONFIG, no_sandbox)
    assert [each.what for each in found] == [
        "statement 1 (SELEC): this kind of statement is unknown",
        "the parameter 'order' has a value and is not used",
        "statement 1 (DELETE): it may change the database, but this text may only read",
        "statement 1 (VACUUM): statements of this kind are not allowed",
    ]


def test_without_duckdb_or_a_sandbox_a_query_is_not_called_sound(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = check_with_queries(office.root, office.workspace.config, no_sandbox)[1]
    assert [each.what for each in found] == ["its queries could not be checked: there is no sandbox"]

    def no_duckdb() -> NoReturn:
        raise RefusedError(Reason.CAPABILITY_UNSUPPORTED, "that is not installed", next_step="pip install")

    monkeypatch.setattr(sql_checking, "require_duckdb", no_duckdb)
    assert [(each.field, each.what) for each in found_in(office, LOOKUP)] == [
        ("binding.query", "that is not installed")
    ]


@pytest.mark.req("AC-18")
def test_a_query_that_could_never_run_cannot_be_promoted(office: Office) -> None:
    with pytest.raises(RefusedError, match="the engine cannot read it") as refused:
        office.promote(LOOKUP["id"])
    assert refused.value.where == "simulation look-up-order, binding.query"
    assert office.promotion.states("acme") == {}
    office.write_catalogue(LOOKUP)
    office.promote(LOOKUP["id"])
    assert office.promotion.status("acme").active == (LOOKUP["id"],)


def test_what_the_sandboxed_process_says_is_believed_only_as_agreed() -> None:
    problem = {"number": 0, "what": "a\nb", "next_step": "c"}
    assert sql_checking.read_problems({"problems": [problem]}, 1)[0].what == "a\\nb"
    wrong: list[Any] = [None, {}, {"problems": 1}, {"problems": [{}]}]
    wrong += [{"problems": [{**problem, "number": number}]} for number in (-1, 1, "x")]
    for said in wrong:
        with pytest.raises(EnvironmentFailureError):
            sql_checking.read_problems(said, 1)


@pytest.mark.req("AC-29")
def test_outputs_of_a_server_need_a_preview_that_runs_the_query() -> None:
    outputs = {"customer": {"type": "identifier", "source": "customer"}}
    reads = simulation({**changed(LOOKUP, binding__connection="server"), "outputs": outputs})
    writes = simulation({**changed(REFUND, binding__connection="server"), "outputs": outputs})
    for preview, expected in [
        ("explain", [reads.id, writes.id]),
        ("execute", [writes.id]),
        ("off", [reads.id, writes.id]),
    ]:
        servers = {**CONNECTIONS, "server": {**CONNECTIONS["server"], "preview": preview}}
        config = SystemConfig.from_tree({"version": 1, "connections": servers})
        found = find_unknown_connections([reads, writes], config)
        assert [each.simulation for each in found if each.field == "outputs"] == expected, preview
