"""What an action reports to the goal that it is a step of: the effect of a failure, and its outputs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from remit.contracts.browser.browser import Action, ActionResult
from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.simulation import Simulation
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.contracts.tasks.result import ExecutionResult
from remit.core.errors import RefusedError
from remit.execution.recovery import NOT_KNOWN
from remit.goals.actions.browser import BrowserActionRunner
from remit.goals.actions.results import browser_effect, plan_effect, rollback_effect, task_effect
from remit.goals.actions.runner import GoalActionRunner
from remit.goals.binding.binding import fill
from remit.goals.ports import BoundActionResult
from remit.plans.apply.abandoned import UNKNOWN_EFFECT
from remit.plans.apply.verify_and_undo import NOT_RESTORED
from remit.plans.service import Plans
from tests.goals.goal_office import ARCHIVE, PING, TOUCH, Office
from tests.goals.test_bindings import ADD, POLICY

FIND: dict[str, Any] = {
    **ADD,
    "id": "find-order",
    "impact": "read_only",
    "fields": {"number": {"type": "integer", "question": "Which one?"}},
    "phrases": {},
    "rollback": None,
    "binding": {
        "type": "sql",
        "connection": "read",
        "query": "SELECT * FROM orders WHERE number = $number",
        "parameters": {"number": "{number}"},
    },
    "outputs": {
        "number": {"type": "integer", "source": "number"},
        "code": {"type": "identifier", "source": "code"},
        "day": {"type": "date", "source": "day"},
        "price": {"type": "amount", "source": "price"},
        "note": {"type": "text", "source": "note"},
        "wrong": {"type": "integer", "source": "code"},
        "gone": {"type": "text", "source": "no_such_column"},
    },
}
ROWS = """CREATE TABLE orders (number INTEGER, code VARCHAR, day DATE, price VARCHAR, note VARCHAR);
INSERT INTO orders VALUES
  (1, 'A-17', '2026-01-31', '12.50 EUR', 'to be called'), (2, 'A-18', NULL, NULL, NULL),
  (3, 'A-19', NULL, NULL, 'mia@example.org'), (4, 'A-20', NULL, NULL, E'two\\nlines')"""


class Desk:
    """An office whose actions are prepared and run without the gates of a goal."""

    def __init__(self, office: Office) -> None:
        self.office = office
        workspace = office.workspace
        doors = (lambda: workspace.browser_service, lambda: workspace.tokens, lambda: workspace.ledger)
        browser = BrowserActionRunner(*doors, workspace.state.hosts, workspace.clock)
        self.runner = GoalActionRunner(
            lambda: workspace.tasks,
            lambda: workspace.plans,
            browser,
            lambda: workspace.ledger,
            workspace.state.hosts,
            lambda: workspace.config,
        )

    def prepared(self, tree: dict[str, Any], key: str, **fields: Any) -> dict[str, Any]:
        text = json.dumps(tree).replace("BASE/", f"{self.office.base}/")
        simulation = Simulation.from_tree(json.loads(text))
        digest = "sha256:" + key.ljust(64, "0")
        envelope = DispatchEnvelope(
            correlation_id=f"goal-{key}",
            tenant_id="acme",
            user_id="mia",
            step_id="step-1",
            simulation_id=simulation.id,
            required_fields=fields,
            access_action=simulation.access_action,
            idempotency_key=digest,
            policy_snapshot_ref=digest,
            artifact_fingerprint_bundle_ref=digest,
        )
        prepared = self.runner.prepare(simulation, fill(simulation, fields), envelope, digest)
        return json.loads(json.dumps(prepared))  # type: ignore[no-any-return]

    def run(self, tree: dict[str, Any], key: str, **fields: Any) -> BoundActionResult:
        return self.runner.run(self.prepared(tree, key, **fields), 20)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    connections = {"read": {"type": "duckdb", "path": "shop.duckdb", "read_only": True}}
    office = Office(tmp_path, simulations=(), policy=POLICY, promoted=False, connections=connections)
    with duckdb.connect(str(office.root / "shop.duckdb")) as connection:
        connection.execute(ROWS)
    yield Desk(office)
    office.close()


@pytest.mark.req("AC-29")
def test_outputs_are_the_exact_values_of_the_first_row_or_absent(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = desk.prepared(FIND, "a1", number=1)
    with monkeypatch.context() as patched:  # the query does not run a second time for its answer
        patched.delattr(Plans, "preview")
        first = desk.runner.run(prepared, 20)
    expected = {
        "number": 1,
        "code": "A-17",
        "day": "2026-01-31",
        "price": {"value": "12.50", "currency": "EUR"},
        "note": "to be called",
    }
    assert (first.succeeded, first.outputs, first.effect) == (True, expected, None)
    assert first.payload["answer"]["rows"][0][1] == "A-17"
    assert desk.runner.run(prepared, 20) == first  # from the record, as after a crash
    assert desk.run(FIND, "a2", number=2).outputs == {"number": 2, "code": "A-18"}
    none = desk.run(FIND, "a3", number=9)
    assert (none.succeeded, none.outputs) == (True, {})
    copied = desk.run({**TOUCH, "outputs": {"made": {"type": "text", "source": "destination_path"}}}, "a4", name="new")
    assert copied.outputs == {"made": str(desk.office.base / "new.txt")}
    assert "outputs" not in desk.prepared(PING, "a5")


@pytest.mark.req("AC-29")
def test_a_value_that_is_masked_is_never_an_output(desk: Desk) -> None:
    query = "SELECT code AS token FROM orders WHERE number = $number"
    outputs = {"code": {"type": "text", "source": "token"}}
    by_name = {**FIND, "binding": {**FIND["binding"], "query": query}, "outputs": outputs}
    for number, (tree, named) in enumerate([(FIND, "note"), (FIND, "note"), (by_name, "code")], start=3):
        with pytest.raises(RefusedError, match=f"the value of the output {named} is hidden"):
            desk.prepared(tree, f"b{number}", number=min(number, 4))
    inputs = {**TOUCH["binding"]["inputs"], "destination_path": "BASE/password=h3xx.txt"}
    outputs = {"made": {"type": "text", "source": "destination_path"}}
    path = {**TOUCH, "binding": {**TOUCH["binding"], "inputs": inputs}, "outputs": outputs}
    with pytest.raises(RefusedError, match="the value of the output made is hidden"):
        desk.prepared(path, "b6", name="new")
    assert desk.office.count("SELECT count(*) FROM claims") == 0


@pytest.mark.req("AC-31")
def test_a_failure_has_no_effect_only_where_its_operation_is_certain(desk: Desk) -> None:
    (desk.office.base / "taken.txt").write_text("taken\n")
    task = desk.run(TOUCH, "c1", name="taken")
    assert (task.succeeded, task.effect) == (False, "NONE")
    prepared = desk.prepared(ARCHIVE, "c2", note="one")
    (desk.office.root / "notes" / "one.txt").write_text("changed since\n")
    plan = desk.runner.run(prepared, 20)
    assert (plan.succeeded, plan.effect, plan.payload["status"]) == (False, "NONE", "REFUSED")

    failed = ExecutionResult.from_tree(task.payload["result"])
    assert task_effect(failed) == "NONE"
    assert task_effect(failed.model_copy(update={"capability_id": "SEND_LETTER"})) == "UNKNOWN"
    closed = failed.error.model_copy(update={"message": f"closed; {NOT_KNOWN}"}) if failed.error else None
    assert task_effect(failed.model_copy(update={"error": closed})) == "UNKNOWN"

    envelope = json.dumps(desk.prepared(ARCHIVE, "c3", note="three")["envelope"]).encode()
    good = desk.office.workspace.plans.apply(envelope)
    assert isinstance(good, PlanOutcome)
    assert plan_effect(good, (), is_claimed=True) is None
    cases = [
        ("ROLLED_BACK", (), (), "NONE"),
        ("FAILED", ("stopped (E1): a step failed",), (), "NONE"),
        ("CANCELLED", (), (), "NONE"),
        ("PARTIAL", (), (), "UNKNOWN"),
        ("ROLLED_BACK", (f"notes/a.txt {NOT_RESTORED}: another process changed it",), (), "UNKNOWN"),
        ("ROLLED_BACK", ("x" * 1_000,), (), "UNKNOWN"),
        ("FAILED", (f"{UNKNOWN_EFFECT}: a person closed this run",), (), "UNKNOWN"),
        ("ROLLED_BACK", (), ("query",), "UNKNOWN"),
    ]
    for status, warnings, irreversible, effect in cases:
        outcome = good.model_copy(
            update={
                "status": good.status.model_copy(update={"status": status}),
                "report": good.report.model_copy(update={"status": status, "warnings": warnings}),
            }
        )
        assert plan_effect(outcome, irreversible, is_claimed=True) == effect, (status, warnings)
    refusal = PlanRefusal.model_construct(status="REFUSED", envelope_id="e", errors=())
    assert [plan_effect(refusal, (), is_claimed=claimed) for claimed in (False, True)] == ["NONE", "UNKNOWN"]
    for status, back in [("EXECUTED", None), ("PARTIAL", "UNKNOWN"), ("FAILED", "UNKNOWN"), ("REFUSED", "NONE")]:
        assert rollback_effect(status) == back


@pytest.mark.req("AC-31")
def test_a_failed_browser_action_has_no_effect_only_if_it_pressed_and_sent_nothing() -> None:
    error = {"code": "KERNEL_ERROR", "message": "the page did not load"}
    closed = {**error, "message": f"closed; {NOT_KNOWN}"}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("navigate", {}, "NONE"),
        ("snapshot", {}, "NONE"),
        ("navigate", {"sent": 1}, "UNKNOWN"),
        ("navigate", {"error": closed}, "UNKNOWN"),
        ("click", {}, "UNKNOWN"),
        ("click", {"action_id": "a-open-1"}, "NONE"),
        ("click", {"action_id": "a-open-1", "sent": 1}, "UNKNOWN"),
    ]
    for kind, changes, effect in cases:
        selector = {"selector": "#buy"} if kind == "click" else {}
        action = Action.from_tree({"action_id": "a", "type": kind, "target": "https://shop.example/", **selector})
        tree = {"action_id": "a", "success": False, "reason": "failed", "error": error, **changes}
        assert browser_effect(action, ActionResult.from_tree(tree)) == effect, (kind, changes)
    page = Action.from_tree({"action_id": "a", "type": "navigate", "target": "https://shop.example/"})
    assert browser_effect(page, ActionResult.from_tree({"action_id": "a", "success": True})) is None
