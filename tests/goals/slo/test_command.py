"""`remit slo`: a real load on the real path, and a gate that blocks."""

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import click
import psycopg
import pytest
from click.testing import CliRunner, Result

from remit.cli import main
from remit.cli.goals.slo import slo
from remit.contracts.goals.slo import WAIVERS_NAME
from remit.core.errors import EnvironmentFailureError
from remit.core.ids import system_clock
from remit.goals.slo import Rate
from remit.ledger.goal_tables import StepRow
from remit.ledger.projections import append_step
from remit.ledger.writer import Batch
from remit.testing import goal_load
from remit.testing import goal_workspace as goal_scratch
from remit.testing.goal_load import LoadResult, run_load, timed_dispatches
from remit.testing.goal_workspace import TENANT, USER, GoalWorkspace, make_scratch, scratch_workspace

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> GoalWorkspace:
    return make_scratch(tmp_path_factory.mktemp("slo"))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> LoadResult:
    """One load that was really run; what is made of it is tried in many ways."""
    told: list[tuple[int, int]] = []
    made = make_scratch(tmp_path_factory.mktemp("load"))
    done = run_load(made, goals=21, callers=4, on_progress=lambda count, total: told.append((count, total)))
    assert told[-1][0] == done.asked
    return done


def gate(scratch: GoalWorkspace, seen: LoadResult, *more: str) -> Result:
    """The command, with a load that was run before in the place of the one that it would run."""

    @contextmanager
    def no_scratch(**_: object) -> Iterator[GoalWorkspace]:
        yield scratch

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(goal_load, "run_load", lambda *_, **__: seen)
        patched.setattr(goal_scratch, "scratch_workspace", no_scratch)
        for name, value in scratch.environ.items():
            patched.setenv(name, value)
        return CliRunner().invoke(main, ["slo", "gate", "-C", str(scratch.root), *more])


def fail_dispatches(scratch: GoalWorkspace, failed: int, succeeded: int) -> None:
    def work(batch: Batch) -> None:
        for event in ["FAILED"] * failed + ["SUCCEEDED"] * succeeded:
            number = next(NUMBERS)
            for each in ("PLANNED", "ACCESS_ALLOWED", "DISPATCHED", event):
                row = StepRow(
                    event_id=f"{number}-{each}",
                    correlation_id=f"c-{number}",
                    plan_id=f"p-{number}",
                    step_id="step-1",
                    event=each,
                    idempotency_key=f"k-{number}",
                )
                append_step(batch, TENANT, row)

    with scratch.open() as workspace:
        workspace.ledger.transact(work)


@pytest.mark.req("AC-08", "AC-17")
def test_a_load_measures_every_goal_once_though_some_are_asked_for_twice(seen: LoadResult) -> None:
    assert seen.asked > seen.goals == len(seen.dispatch_ms) == len(seen.goal_ms)
    assert seen.ended == Rate(0, seen.goals + goal_load.WARM_UP)
    assert seen.duplicates == Rate(0, seen.goals + goal_load.WARM_UP)
    assert seen.codes == {"SIMULATION_SUCCEEDED": seen.asked}
    assert all(wait > 0 for wait in seen.dispatch_ms)
    assert max(seen.dispatch_ms) <= max(seen.goal_ms)


@pytest.mark.req("AC-17")
def test_the_command_runs_a_load_of_its_own_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(main, ["slo", "run", "--goals", "20", "--callers", "2", "--json"])
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    assert document["passed"]
    assert document["load"]["goals"] == 20
    assert [figure["verdict"] for figure in document["figures"]] == ["PASS"] * 4
    assert list(tmp_path.iterdir()) == []


def test_a_load_on_postgresql_takes_its_tables_away_again(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_TEST_LEDGER_URL", postgres_url)
    ours = "SELECT count(*) FROM pg_namespace WHERE nspname ^@ 'remit_'"
    with psycopg.connect(postgres_url, autocommit=True) as database:
        with scratch_workspace(url_variable="REMIT_TEST_LEDGER_URL") as scratch:
            assert database.execute(ours).fetchone() == (1,)
            with scratch.open() as workspace:
                assert workspace.store.dialect == "postgresql"
        assert database.execute(ours).fetchone() == (0,)
    assert not scratch.root.exists()


@pytest.mark.req("AC-17", "AC-26", "AC-34")
def test_the_gate_blocks_on_the_workspaces_last_day_until_a_waiver_stands(
    request: pytest.FixtureRequest, scratch: GoalWorkspace, seen: LoadResult
) -> None:
    assert gate(scratch, seen).exit_code == 0
    fail_dispatches(scratch, 1, 199)
    kept = gate(scratch, seen)
    assert kept.exit_code == 0
    assert "1 of 200 dispatches failed" in kept.stdout
    assert re.search(r"in the workspace, p95 [0-9,]+ ms and p99 [0-9,]+ ms of 200 dispatches in 24 hours", kept.stdout)
    told = json.loads(gate(scratch, seen, "--json").stdout)
    assert (told["workspace"]["ended"], told["workspace"]["dispatches"]) == ({"failed": 1, "total": 200}, 200)
    for figure in told["figures"][:2]:  # judged by the load
        percent = figure["figure"].split("_")[2]
        assert figure["measured"] == figure["load"] == told["load"]["dispatch_ms"][percent]
        assert figure["workspace"] == told["workspace"]["dispatch_ms"][percent] is not None
    assert told["figures"][2]["measured"] == max(told["figures"][2]["load"], told["figures"][2]["workspace"]) == 1 / 200
    fail_dispatches(scratch, 1, 0)
    blocked = gate(scratch, seen)
    assert blocked.exit_code == 1
    assert "blocked: execution_error_rate" in blocked.stderr
    today = system_clock().date()
    waiver = {
        "figure": "execution_error_rate",
        "limit": 0.02,
        "approved_by": "Ann Builder",
        "reason": "a known fault of the disk",
        "issued": str(today - timedelta(days=1)),
        "ends": str(today + timedelta(days=1)),
    }
    file = scratch.root / WAIVERS_NAME
    request.addfinalizer(lambda: file.unlink(missing_ok=True))
    file.write_text(json.dumps({"version": 1, "waivers": [waiver]}))
    waived = gate(scratch, seen)
    assert waived.exit_code == 0
    assert "waived: execution_error_rate, waived by Ann Builder" in waived.stderr
    file.write_text(json.dumps({"version": 1, "waivers": [{**waiver, "ends": waiver["issued"]}]}))
    assert gate(scratch, seen).exit_code == 1
    file.write_text("version: 1\nwaivers: 3\n")
    assert gate(scratch, seen).exit_code == 2  # refused: it is no word that counts


@pytest.mark.req("AC-17")
def test_a_slow_failing_or_doubled_load_blocks(scratch: GoalWorkspace, seen: LoadResult) -> None:
    slow = replace(seen, dispatch_ms=(1_300.0,) * 20)
    twice = replace(seen, duplicates=Rate(1, 20))
    nothing = replace(seen, dispatch_ms=(), ended=Rate(0, 0), duplicates=Rate(0, 0))
    for each, figures in (
        (slow, {"agent_dispatch_p95_ms"}),
        (twice, {"idempotency_duplicate_side_effect_rate"}),
        (nothing, {"agent_dispatch_p95_ms", "idempotency_duplicate_side_effect_rate"}),
    ):
        ran = gate(scratch, each, "--json")
        assert ran.exit_code == 1
        blocked = {figure["figure"] for figure in json.loads(ran.stdout)["figures"] if figure["verdict"] != "PASS"}
        assert figures <= blocked


@pytest.mark.req("AC-17")
def test_a_load_that_is_turned_away_at_a_gate_measures_nothing(tmp_path: Path) -> None:
    made = make_scratch(tmp_path)
    (made.root / "access.cedar").write_text('@id("nobody")\nforbid (principal, action, resource);\n')
    with pytest.raises(EnvironmentFailureError, match="0 of 5 goals were dispatched"):
        run_load(made, goals=2, callers=1)


def test_timing_passes_everything_on_and_is_taken_away_again(scratch: GoalWorkspace) -> None:
    with scratch.open() as workspace:
        before = workspace.goals.core
        with timed_dispatches(workspace.goals) as waits:
            said = workspace.goals.ask("are you there", user=USER, tenant=TENANT).outcome
        assert said.reason_code == "SIMULATION_SUCCEEDED"
        assert len(waits) == 1
        assert workspace.goals.core is before


def test_the_command_alone_means_run() -> None:
    called: list[str] = []
    command = slo.commands["run"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(command, "callback", lambda **given: called.append(str(sorted(given))))
        assert CliRunner().invoke(slo, []).exit_code == 0
    assert called == ["['as_json', 'callers', 'database_variable', 'goals']"]
    assert isinstance(slo, click.Group)
