"""How large, how long, how much; and whether somebody still wants it."""

import importlib.util
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.plans.outcome import PlanRefusal
from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason, RefusedError, RemitError
from remit.plans.model.callbacks import PlanHooks
from tests.plans.project import create, plan_of
from tests.plans.sql.shop import Shop, sql
from tests.plans.sql.test_changes import UPDATE
from tests.support.patience import SOON

ENDLESS = "SELECT sum(hash(range) % 7) AS n FROM range(1000000000000)"


def problem_of(shop: Shop, *actions: dict[str, Any], **more: Any) -> tuple[str, str]:
    seen = shop.workspace.preview(plan_of(*actions, **more))
    (problem,) = [step.problem for step in seen.steps.steps if step.problem]
    return problem["reason"], f"{problem['what']} {problem['next_step']}"


@pytest.mark.req("PX-26")
def test_a_database_that_could_not_be_kept_is_refused_before_anything_runs(open_shop: Callable[..., Shop]) -> None:
    shop = open_shop(limits={"max_backup_bytes": 100_000})
    size = shop.database.stat().st_size
    assert size > 100_000
    reason, words = problem_of(shop, sql("a1", UPDATE))
    assert reason == Reason.LIMIT_EXCEEDED
    assert f"{size:,}" in words
    assert "limits.max_backup_bytes" in words


@pytest.mark.req("PX-26")
def test_a_database_may_be_larger_than_a_file_that_is_read(open_shop: Callable[..., Shop]) -> None:
    shop = open_shop(limits={"max_file_bytes": 10_000})
    before = shop.tree()
    assert shop.apply(plan_of(sql("a1", UPDATE))).status.status == "SUCCESS"
    shop.workspace.rollback("last")
    assert shop.tree() == before
    shop.write("long.sql", UPDATE + " " * 10_000)
    assert problem_of(shop, sql("a1", query_file="long.sql"))[0] == Reason.LIMIT_EXCEEDED
    many = sql("a1", "SELECT range AS n FROM range(10000)", save_results_to="n.csv")
    assert problem_of(shop, many)[0] == Reason.LIMIT_EXCEEDED
    assert shop.left_over() == []


@pytest.mark.req("PX-26")
def test_what_a_database_would_become_is_bounded_too(open_shop: Callable[..., Shop]) -> None:
    shop = open_shop(limits={"max_backup_bytes": 4 << 20})
    grown = "CREATE TABLE t AS SELECT hash(range) AS a, hash(range + 1) AS b FROM range(600000)"
    reason, words = problem_of(shop, sql("a1", grown))
    assert (reason, "at most 4,194,304" in words) == (Reason.LIMIT_EXCEEDED, True)


@pytest.mark.req("PX-25")
@pytest.mark.parametrize("of_the_action", [True, False])
def test_a_text_is_stopped_when_its_time_is_over(open_shop: Callable[..., Shop], of_the_action: bool) -> None:  # noqa: FBT001
    shop = open_shop(timeouts={"sql": 60 if of_the_action else 1})
    begun = time.monotonic()
    more = {"timeout_seconds": 1} if of_the_action else {}
    reason, words = problem_of(shop, sql("a1", ENDLESS, **more))
    assert (reason, "longer than 1 seconds" in words) == (Reason.TIMED_OUT, True)
    assert "timeouts.sql" in words
    assert time.monotonic() - begun < SOON
    assert shop.left_over() == []


@pytest.mark.req("PX-25")
def test_a_text_that_takes_too_long_is_reported_as_such_where_the_rest_is_done(open_shop: Callable[..., Shop]) -> None:
    """The process that carries the others out is not believed when it speaks of time: we know it ourselves."""
    shop = open_shop(timeouts={"sql": 1})
    plan = plan_of(create("a1", "x.txt"), sql("a2", ENDLESS), stop_on_error=False, rollback_on_failure=False)
    document = shop.workspace.preview(plan).document
    assert [problem.error_code for problem in document.problems] == [5001]
    outcome = shop.apply(plan, even_if_it_fails=True)
    assert [error.error_code for error in outcome.errors] == [5001]
    assert outcome.report.actions_failed[0].error_code == 5001
    assert outcome.status.status == document.would_end


@pytest.mark.req("PX-25")
def test_all_texts_together_have_the_time_of_the_plan(shop: Shop) -> None:
    begun = time.monotonic()
    seen = shop.workspace.preview(
        plan_of(
            sql("a1", ENDLESS, timeout_seconds=2),
            sql("a2", ENDLESS, connection="memory", save_results_to="x.csv"),
            timeout_seconds=3,
        )
    )
    assert [step.problem and step.problem["reason"] for step in seen.steps.steps] == [Reason.TIMED_OUT] * 2
    assert time.monotonic() - begun < SOON


@pytest.mark.req("PX-25")
def test_no_plan_lifts_the_ceiling() -> None:
    for seconds, allowed in ((300, True), (301, False)):
        plan = plan_of(sql("a1", UPDATE, timeout_seconds=seconds))
        if allowed:
            Plan.parse(plan)
        else:
            with pytest.raises(RefusedError):
                Plan.parse(plan)


@pytest.mark.req("PX-18")
def test_memory_is_bounded_and_the_engine_says_so_itself(open_shop: Callable[..., Shop]) -> None:
    shop = open_shop(limits={"max_memory_bytes": 128 << 20})
    greedy = "SELECT array_agg(hash(range) ORDER BY hash(range)) AS a FROM range(30000000)"
    reason, words = problem_of(shop, sql("a1", greedy))
    assert (reason, "80,530,636 bytes of memory" in words) == (Reason.RESOURCE_EXHAUSTED, True)


@pytest.mark.req("PX-13")
def test_a_plan_can_be_cancelled_while_its_sql_runs(shop: Shop) -> None:
    shop.write("slow.sql", "SELECT 1 AS a")
    plan = plan_of(sql("a1", query_file="slow.sql", save_results_to="x.csv"))
    before = shop.tree()
    envelope = shop.approve(plan).canonical()
    asked = threading.Event()
    outcome = shop.workspace.apply(envelope, on_status=lambda _: asked.set(), is_cancelled=asked.is_set)
    assert isinstance(outcome, PlanRefusal)
    assert outcome.status == "CANCELLED"
    assert shop.tree() == before
    assert shop.left_over() == []


@pytest.mark.req("PX-13")
def test_a_text_without_end_stops_when_its_preview_is_cancelled(shop: Shop) -> None:
    """By its own time it would take a minute."""
    asked, begun = threading.Event(), time.monotonic()
    timer = threading.Timer(3, asked.set)
    timer.start()
    with pytest.raises(RemitError) as cancelled:
        shop.workspace.plans.preview(plan_of(sql("a1", ENDLESS)), PlanHooks(is_cancelled=asked.is_set))
    assert cancelled.value.reason is Reason.CANCELLED
    assert time.monotonic() - begun < SOON
    assert shop.left_over() == []


@pytest.mark.req("PX-18")
def test_without_duckdb_the_refusal_says_what_to_install(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "duckdb" else found(name))
    with pytest.raises(RefusedError, match="DuckDB is not installed") as caught:
        shop.workspace.preview(plan_of(sql("a1", UPDATE)))
    assert caught.value.next_step == "Install it with: pip install 'remit[sql]'"
    assert shop.left_over() == []


@pytest.mark.req("PX-27")
def test_a_listener_learns_of_each_action(shop: Shop) -> None:
    plan = plan_of(sql("a1", UPDATE), sql("a2", "SELECT 1 AS a", save_results_to="x.csv"))
    heard: list[tuple[str, int, int]] = []
    shop.workspace.preview(plan, on_status=lambda update: heard.append((update.phase, update.done, update.total)))
    assert list(dict.fromkeys(one for one in heard if one[0] == "CHECKING")) == [
        ("CHECKING", 0, 2),
        ("CHECKING", 1, 2),
        ("CHECKING", 2, 2),
    ]


@pytest.mark.req("PX-27")
def test_a_caller_that_waits_for_a_preview_gets_updates_while_it_runs(shop: Shop) -> None:
    heard: list[float] = []
    plan = plan_of(sql("a1", ENDLESS, timeout_seconds=3))
    shop.workspace.preview(plan, on_status=lambda _: heard.append(time.monotonic()))
    assert len(heard) > 4
    assert max(later - earlier for earlier, later in itertools.pairwise(heard)) < 2.5


@pytest.mark.req("PX-06", "PX-34")
def test_protected_texts_and_results_need_their_approval(shop: Shop) -> None:
    shop.write("secrets.sql", "SELECT 1 AS a")
    plan = plan_of(sql("a1", query_file="secrets.sql", save_results_to="credentials.json"))
    document = shop.workspace.preview(plan).document
    assert (document.status, document.needs.protected) == ("NEEDS_APPROVAL", ("credentials.json", "secrets.sql"))
    with pytest.raises(RefusedError, match="protected"):
        shop.approve(plan, protected=["secrets.sql"])
    assert not (shop.root / "credentials.json").exists()
    envelope = shop.approve(plan, protected=["secrets.sql", "credentials.json"])
    shop.workspace.apply(envelope.canonical())
    assert (shop.root / "credentials.json").exists()


@pytest.mark.req("PX-05", "PX-34")
def test_links_on_the_way_to_a_file_of_an_action_are_refused(shop: Shop, tmp_path: Path) -> None:
    outside = tmp_path / "outside.sql"
    outside.write_text("SELECT 1 AS a")
    (shop.root / "linked.sql").symlink_to(outside)
    (shop.root / "linked.csv").symlink_to(outside)
    for more in ({"query_file": "linked.sql"}, {"query": "SELECT 1 AS a", "save_results_to": "linked.csv"}):
        with pytest.raises(RefusedError):
            shop.workspace.preview(plan_of(sql("a1", **more)))
    shop.database.rename(tmp_path / "elsewhere.duckdb")
    shop.database.symlink_to(tmp_path / "elsewhere.duckdb")
    with pytest.raises(RefusedError):
        shop.workspace.preview(plan_of(sql("a1", UPDATE)))
    assert outside.read_text() == "SELECT 1 AS a"


@pytest.mark.req("PX-26")
def test_parameters_have_a_bound_and_a_text_a_larger_one(shop: Shop) -> None:
    large = sql("a1", "SELECT length($a) AS n", parameters={"a": "x" * 1_100_000})
    reason, words = problem_of(shop, large)
    assert (reason, "parameters are too large" in words) == (Reason.TOO_LARGE, True)
    text = "SELECT length('" + "x" * 900_000 + "') AS n"
    assert not shop.workspace.preview(plan_of(sql("a1", text))).document.problems
