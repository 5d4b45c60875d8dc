"""Pipelines in plans, as text: who may run what, on which files, and in which order."""

from typing import Any, Final

import pytest

from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason
from remit.execution.decision import Denial
from remit.plans.policy.dependencies import needs_of
from remit.plans.policy.pipelines import MAX_PIPELINE_ACTIONS
from remit.plans.policy.plan import decide_plan, needed_approvals
from remit.plans.policy.required_approvals import NO_APPROVALS
from remit.plans.policy.sql import changed_paths, named_paths, touched_by
from remit.plans.policy.timeouts import seconds_for
from tests.plans.policy.plans import ROOT, config, create, modify, plan, rename
from tests.plans.policy.test_databases import sql

PIPELINES: Final[dict[str, dict[str, Any]]] = {
    "nightly": {"type": "sql", "connection": "shop", "steps": ["sql/a.sql", "./sql//b.sql"], "parameters": ["day"]},
    "report": {
        "type": "python",
        "steps": ["etl.report:run"],
        "reads": ["data/", "notes.txt"],
        "writes": ["out/a.csv", "out//b.csv"],
        "timeout_seconds": 77,
    },
    "again": {"type": "python", "steps": ["etl.again:run"], "reads": ["out"], "writes": ["last.csv"]},
    "models": {"type": "dbt", "project": "models/", "connection": "shop"},
    "stranger": {"type": "python", "steps": ["os:remove", "etl.report:run"], "writes": ["x"]},
    "forgetful": {"type": "sql", "connection": "memory", "steps": ["sql/a.sql"]},
    "closed": {"type": "sql", "connection": "closed", "steps": ["sql/a.sql"]},
    "nowhere": {"type": "dbt", "project": "models", "connection": "nobody"},
    "server": {"type": "dbt", "project": "models", "connection": "server"},
    "outside": {"type": "python", "steps": ["etl.report:run"], "reads": ["../x", "/etc"], "writes": ["../y", "ok"]},
    "own": {"type": "python", "steps": ["etl.report:run"], "reads": ["agent_outputs"], "writes": ["remit.yaml"]},
    "secret": {"type": "python", "steps": ["etl.report:run"], "reads": [".env"], "writes": ["secrets.txt"]},
    "itself": {"type": "python", "steps": ["etl.report:run"], "writes": ["etl/report.py"]},
}
CONFIG: Final = config(
    connections={
        "shop": {"type": "duckdb", "path": "data/shop.duckdb"},
        "closed": {"type": "duckdb", "path": "data/shop.duckdb", "read_only": True},
        "memory": {"type": "duckdb"},
        "server": {"type": "postgresql", "url_variable": "SHOP_URL"},
    },
    pipelines=PIPELINES,
    pipeline_packages=["etl", "shared"],
)


def run(action_id: str, name: str, *needs: str, reversible: bool = False, **more: Any) -> dict[str, Any]:
    operation = {"type": "pipeline_run", "pipeline": name, "parameters": more.pop("parameters", {})}
    action = {"action_id": action_id, "action_type": "PIPELINE_RUN", "depends_on": list(needs), "operation": operation}
    return {**action, "reversible": reversible, **more}


def denials(built: Plan) -> list[Denial]:
    """But for approvals that are not given."""
    found = decide_plan(built, CONFIG, ROOT, None).denials
    assert all(denial.what and denial.where and denial.next_step for denial in found)
    return list(found)


def only(built: Plan) -> Denial:
    (denial,) = denials(built)
    return denial


@pytest.mark.req("PX-21", "PX-34")
def test_what_a_pipeline_changes_and_names() -> None:
    built = plan(run("a", "nightly"), run("b", "report"), run("c", "models")).action_plan
    assert [list(changed_paths(one, CONFIG)) for one in built] == [
        ["data/shop.duckdb"],
        ["out/a.csv", "out/b.csv"],
        ["data/shop.duckdb"],
    ]
    assert [list(named_paths(one, CONFIG)) for one in built] == [
        ["data/shop.duckdb", "sql/a.sql", "sql/b.sql"],
        ["out/a.csv", "out/b.csv", "etl", "shared", "data", "notes.txt"],
        ["data/shop.duckdb", "models"],
    ]


@pytest.mark.req("PX-21")
def test_what_is_registered_may_run() -> None:
    assert denials(plan(run("a", "nightly", reversible=True, parameters={"day": 1}), run("b", "report"))) == []


@pytest.mark.req("PX-21")
@pytest.mark.parametrize(
    "name, reason, where, words",
    [
        ("unheard", Reason.CAPABILITY_UNSUPPORTED, "action a, pipeline", "no pipeline called 'unheard'"),
        ("stranger", Reason.CAPABILITY_UNSUPPORTED, "action a, pipeline stranger, steps", "os:remove is not in"),
        ("forgetful", Reason.MALFORMED, "action a, pipeline forgetful, connection", "in memory"),
        ("closed", Reason.CAPABILITY_UNSUPPORTED, "action a, pipeline closed, connection", "read_only"),
        ("nowhere", Reason.CAPABILITY_UNSUPPORTED, "action a, pipeline nowhere, connection", "no connection called"),
        ("server", Reason.CAPABILITY_UNSUPPORTED, "action a, pipeline server, connection", "PostgreSQL"),
    ],
)
def test_what_is_not_registered_or_not_allowed_is_refused(name: str, reason: Reason, where: str, words: str) -> None:
    denial = only(plan(run("a", name)))
    assert (denial.reason, denial.where) == (reason, where)
    assert words in denial.what


@pytest.mark.req("PX-21")
def test_only_declared_parameters_are_accepted_and_no_value_is_quoted() -> None:
    denial = only(plan(run("a", "nightly", parameters={"day": 1, "night": "hunter2"})))
    assert denial.reason is Reason.MALFORMED
    assert "'night'" in denial.what
    assert "day" in denial.next_step
    assert "hunter2" not in f"{denial}"


@pytest.mark.req("PX-21")
@pytest.mark.parametrize("name", ["report", "models"])
def test_code_that_a_plan_calls_reversible_is_refused(name: str) -> None:
    denial = only(plan(run("a", name, reversible=True)))
    assert (denial.reason, denial.where) == (Reason.MALFORMED, "action a, reversible")
    assert "--allow-irreversible 'a'" in denial.next_step


@pytest.mark.req("PX-21")
def test_code_needs_an_approval_by_name_and_sql_does_not() -> None:
    built = plan(run("a", "nightly"), run("b", "report"), run("c", "nightly", reversible=True), run("d", "models"))
    assert needed_approvals(built, CONFIG).irreversible == ("b", "d")
    missing = decide_plan(built, CONFIG, ROOT, NO_APPROVALS).denials
    assert [(denial.reason, denial.where) for denial in missing] == [
        (Reason.IRREVERSIBLE, "action b"),
        (Reason.IRREVERSIBLE, "action d"),
    ]


@pytest.mark.req("PX-34")
def test_no_path_of_a_pipeline_leads_out_or_to_what_remit_keeps() -> None:
    assert [denial.reason for denial in denials(plan(run("a", "outside")))] == [Reason.PATH_REFUSED] * 3
    assert [(denial.reason, denial.where) for denial in denials(plan(run("a", "own")))] == [
        (Reason.PATH_REFUSED, "remit.yaml"),
        (Reason.PATH_REFUSED, "agent_outputs"),
    ]


@pytest.mark.req("PX-34")
def test_protected_files_that_a_pipeline_reads_or_changes_need_their_approval() -> None:
    assert needed_approvals(plan(run("a", "secret")), CONFIG).protected == ("secrets.txt", ".env")


@pytest.mark.req("PX-21", "PX-34")
def test_no_other_action_touches_what_a_pipeline_reads_runs_or_changes(subtests: pytest.Subtests) -> None:
    for other in [
        create("b", "out/a.csv"),
        create("b", "data/new.csv"),
        modify("b", "etl/report.py"),
        modify("b", "shared/deep/x.py"),
        modify("b", "notes.txt"),
        rename("b", "z", "data/z"),
        sql("b", connection="shop", save_results_to="out/a.csv"),
        sql("b", connection="shop", save_results_to="etl/rows.csv"),
    ]:
        with subtests.test(other=other):
            denial = only(plan(run("a", "report"), other))
            assert (denial.reason, denial.next_step) == (Reason.PATH_REFUSED, "Split it into two plans.")
            assert "pipeline report" in denial.what


@pytest.mark.req("PX-21")
def test_a_pipeline_does_not_change_code() -> None:
    assert "etl/report.py belongs to the pipeline itself" in only(plan(run("a", "itself"))).what


@pytest.mark.req("PX-08", "PX-21")
def test_pipelines_and_sql_that_share_a_file_run_one_after_the_other() -> None:
    built = plan(
        run("a", "report"),
        run("b", "again"),
        run("c", "nightly"),
        sql("d", connection="shop"),
        run("e", "models"),
        create("f", "elsewhere"),
    )
    assert denials(built) == []
    needs = needs_of(built.action_plan, touched_by(CONFIG))
    assert needs == {0: (), 1: (0,), 2: (), 3: (2,), 4: (3,), 5: ()}


@pytest.mark.req("PX-21")
def test_a_target_and_its_hashes_are_of_one_of_the_files() -> None:
    digest = "sha256:" + "0" * 64
    assert denials(plan(run("a", "report", target="out/b.csv", expected_hash_before=digest))) == []
    assert denials(plan(run("a", "nightly", expected_hash_before=digest))) == []
    assert only(plan(run("a", "report", expected_hash_after=digest))).where == "action a, target"
    assert "not a file that the pipeline changes" in only(plan(run("a", "report", target="other.csv"))).what


@pytest.mark.req("PX-25")
def test_the_time_of_a_pipeline_is_the_actions_or_its_own_or_the_default() -> None:
    own, given, default = plan(
        run("a", "report"), run("b", "report", timeout_seconds=5), run("c", "nightly")
    ).action_plan
    assert [seconds_for(one, CONFIG) for one in (own, given, default)] == [77, 5, 300]


@pytest.mark.req("PX-21")
def test_a_plan_runs_so_many_pipelines_and_no_more() -> None:
    allowed = [run(f"a{number}", "nightly") for number in range(MAX_PIPELINE_ACTIONS)]
    assert denials(plan(*allowed)) == []
    assert only(plan(*allowed, run("one-more", "nightly"))).reason is Reason.LIMIT_EXCEEDED


@pytest.mark.req("PX-21")
@pytest.mark.parametrize("name, refused", [("report", True), ("models", True), ("nightly", False)])
def test_code_is_not_run_without_a_sandbox(name: str, *, refused: bool) -> None:
    """SQL is read before it runs; of code nobody knows what it does."""
    unconfined = CONFIG.model_copy(update={"sandbox": "unsafe-none"})
    found = decide_plan(plan(run("a", name)), unconfined, ROOT, None).denials
    assert [(denial.reason, denial.where) for denial in found] == (
        [(Reason.CAPABILITY_UNSUPPORTED, "action a, pipeline")] if refused else []
    )
