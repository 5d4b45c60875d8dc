"""Runs the bound action of a goal as its own operation, with an authority that is signed for it here.

The id of each action follows from the dispatch, so a second run has no second effect. Before the effect starts, the
checkpoint of the dispatch holds everything that is needed to continue it.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from remit.contracts.config.config import SystemConfig
from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.simulation import Simulation
from remit.contracts.plans.envelope import Approvals
from remit.contracts.plans.outcome import PlanOutcome
from remit.contracts.plans.plan import Plan
from remit.contracts.tasks.result import ExecutionResult
from remit.contracts.tasks.task import TaskManifest
from remit.core.canonical import canonical_bytes, digest
from remit.core.concurrency import released
from remit.core.errors import Reason, RefusedError, RemitError
from remit.goals.actions.browser import BrowserActionRunner, find_claim, read_recorded_checkpoint, read_recorded_outcome
from remit.goals.actions.previews import ActionPreviews
from remit.goals.actions.results import outputs_of_row, outputs_of_task, plan_effect, rollback_effect, task_effect
from remit.goals.binding.binding import BoundAction, BrowserAction, PlanAction, TaskAction
from remit.goals.ports import BoundActionResult
from remit.goals.rollback import undone_step
from remit.ledger.goal_queries import step_events
from remit.ledger.writer import Ledger
from remit.plans.model.callbacks import PlanHooks
from remit.plans.service import Plans
from remit.store.claims import ClaimCompleted, ClaimHeld, ClaimKey, read_claim
from remit.tasks.service import Tasks

LEASE_LIFE: Final = timedelta(minutes=5)
ENVELOPE_LIFE: Final = timedelta(hours=1)
DRIFT_ADVICE: Final = (
    "Bring it back to the state in which the goal left it, or roll back first the later goal that changed it. Then ask"
    " for the rollback again."
)
SECONDS_LEFT: Final = "seconds_left"
"""A plan runs on copies first, for the preview. The time that this takes is subtracted from the time of the effect."""

OUTPUTS: Final = "outputs"
"""The values for later steps of the goal. They are known before the effect starts, so a resumed action has the same."""


class GoalActionRunner:
    """`ActionRunner` for tasks, plans, browser actions and undo bindings."""

    def __init__(
        self,
        tasks: Callable[[], Tasks],
        plans: Callable[[], Plans],
        browser: BrowserActionRunner,
        ledger: Callable[[], Ledger],
        hosts: Path,
        config: Callable[[], SystemConfig],
    ) -> None:
        self._previews = ActionPreviews(tasks, plans, config)
        self._tasks = tasks
        self._plans = plans
        self._browser = browser
        self._ledger = ledger
        self._hosts = hosts

    def preview(self, bound: BoundAction, tenant_id: str, key: str) -> dict[str, Any] | None:
        with released():  # a plan of edits reads files
            return self._previews.preview(bound, action_id_of(tenant_id, key))

    def prepare(
        self,
        simulation: Simulation,
        bound: BoundAction,
        envelope: DispatchEnvelope,
        key: str,
        confirmed: str | None = None,
    ) -> dict[str, Any]:
        name = action_id_of(envelope.tenant_id, key)
        as_seen = self._previews.require_same_effect(bound, name, confirmed)
        correlation = {"correlation_id": envelope.correlation_id}
        if isinstance(bound, TaskAction):
            manifest = TaskManifest.from_tree(bound.manifest(name), source="the simulation's task")
            given = outputs_of_task(simulation.outputs, bound.inputs, f"simulation {simulation.id}")
            return {"type": "task", "manifest": manifest.tree(), **correlation, **_with_outputs(given)}
        if isinstance(bound, PlanAction):
            reads = simulation.impact == "read_only"
            deadline = time.monotonic() + simulation.timeout_seconds
            approved = self._approved(simulation, bound, name, deadline, as_seen)
            given = self._outputs(simulation, approved)
            left = round(max(0.0, deadline - time.monotonic()), 3)
            prepared = {"type": "plan", "envelope": approved, "reads": reads, SECONDS_LEFT: left}
            return {**prepared, **correlation, **_with_outputs(given)}
        if isinstance(bound, BrowserAction):
            return {**self._browser.prepare(bound, name, envelope), **correlation}
        return {"type": "undo", "of": self._prepared_for(envelope), **correlation}

    def has_started(self, prepared: Mapping[str, Any]) -> bool:
        match prepared["type"]:
            case "task":
                return find_claim(self._ledger(), "task", prepared["manifest"]["task_id"]) is not None
            case "plan":
                return find_claim(self._ledger(), "plan", prepared["envelope"]["envelope_id"]) is not None
            case "browser":
                return self._browser.has_started(prepared)
            case _:
                return True  # an undo is idempotent: it can be continued any number of times

    def run(self, prepared: Mapping[str, Any], seconds: float) -> BoundActionResult:
        ended = self._run(prepared, seconds)
        return replace(ended, outputs=prepared[OUTPUTS]) if ended.succeeded and OUTPUTS in prepared else ended

    def _run(self, prepared: Mapping[str, Any], seconds: float) -> BoundActionResult:
        if prepared["type"] == "task":
            return self._run_task(prepared, seconds)
        with released():  # the run waits for databases, browsers and people
            match prepared["type"]:
                case "plan":
                    return self._run_plan(prepared, min(seconds, prepared.get(SECONDS_LEFT, seconds)))
                case "browser":
                    return self._browser.run(prepared, seconds)
                case _:
                    return self._undo(prepared["of"])

    def _run_task(self, prepared: Mapping[str, Any], seconds: float) -> BoundActionResult:
        manifest, correlation_id = canonical_bytes(prepared["manifest"]), str(prepared["correlation_id"])
        began = time.monotonic()
        result = self._tasks().lease_and_execute(manifest, LEASE_LIFE, correlation_id=correlation_id, seconds=seconds)
        failed = result.status != "SUCCESS"
        late = failed and time.monotonic() - began >= seconds
        payload = {"type": "task", "result": result.tree()}
        return BoundActionResult(not failed, payload, (f"task/{result.task_id}",), late, effect=task_effect(result))

    def _run_plan(self, prepared: Mapping[str, Any], seconds: float) -> BoundActionResult:
        envelope = canonical_bytes(prepared["envelope"])
        deadline = time.monotonic() + seconds
        hooks = PlanHooks(is_cancelled=lambda: time.monotonic() > deadline)
        outcome = self._find_applied(prepared) or self._plans().apply(envelope, hooks)
        envelope_id = str(prepared["envelope"]["envelope_id"])
        refs = (f"plan/{envelope_id}",)
        is_claimed = find_claim(self._ledger(), "plan", envelope_id) is not None
        effect = plan_effect(outcome, prepared["envelope"]["approvals"]["irreversible"], is_claimed=is_claimed)
        if not isinstance(outcome, PlanOutcome):
            payload: dict[str, Any] = {
                "type": "plan",
                "status": outcome.status,
                "errors": [one.tree() for one in outcome.errors],
            }
            return BoundActionResult(False, payload, refs, time.monotonic() > deadline, effect=effect)
        done = outcome.status.status == "SUCCESS"
        payload = {
            "type": "plan",
            "status": outcome.status.tree(),
            "report_id": outcome.report.report_id,
            "errors": [one.tree() for one in outcome.errors],
            **(self._answer(prepared) if done and prepared["reads"] else {}),
        }
        return BoundActionResult(done, payload, refs, not done and time.monotonic() > deadline, effect=effect)

    def _answer(self, prepared: Mapping[str, Any]) -> dict[str, Any]:
        """Return the first rows of a query, masked, for the user. They are in no report and not in the ledger."""
        try:
            found = self._first_query(prepared["envelope"])
        except RemitError:  # the plan was applied even so
            return {}
        return {"answer": {name: found[name] for name in ("columns", "rows", "result_rows")}} if found else {}

    def _outputs(self, simulation: Simulation, approved: Mapping[str, Any]) -> dict[str, JsonValue]:
        """Return the outputs of a query, from the preview that was approved for this step.

        For a file database this preview is the run: what it made is applied, and the query does not run again. A server
        runs the statements once more when the plan is applied. So `catalogue check` allows outputs of a server only for
        a query that changes nothing, and their values are those at the approval, a moment before.
        """
        found = self._first_query(approved) if simulation.outputs else None
        if not found or not found["rows"]:
            return {}
        names = [column["name"] for column in found["columns"]]
        return outputs_of_row(simulation.outputs, names, found["rows"][0], f"simulation {simulation.id}")

    def _first_query(self, envelope: Mapping[str, Any]) -> dict[str, Any]:
        """Return the first query of the preview that was approved, or nothing. An old envelope does not name it."""
        plans, named = self._plans(), envelope.get("preview_digest")
        stored = plans.previews.find(named) if named is not None else None
        document = (stored or plans.preview(canonical_bytes(envelope["plan"]))).document
        return document.sql[0].tree() if document.sql else {}

    def _find_applied(self, prepared: Mapping[str, Any]) -> PlanOutcome | None:
        """Return the outcome of a plan that has ended. Its approval may have expired, but the outcome stays valid."""
        key = str(prepared["envelope"]["envelope_id"])
        found = find_claim(self._ledger(), "plan", key)
        if isinstance(found, ClaimHeld):
            self._plans().recover()
            found = find_claim(self._ledger(), "plan", key)
        if not isinstance(found, ClaimCompleted):
            return None
        return PlanOutcome.parse(
            read_recorded_outcome(self._ledger(), self._hosts, found).encode(), source="stored outcome"
        )

    def _undo(self, original: Mapping[str, Any]) -> BoundActionResult:
        if original["type"] == "task":
            task_id = str(original["manifest"]["task_id"])
            done = find_claim(self._ledger(), "task", task_id)
            if not isinstance(done, ClaimCompleted):
                raise RefusedError(Reason.STATE_MISSING, "the task that is to be undone has no outcome")
            result = self._tasks().restore(done.result.encode(), LEASE_LIFE)
            restored = {"type": "undo", "result": result.tree()}
            is_undone, refs = result.status == "SUCCESS", (f"task/{result.task_id}",)
            return BoundActionResult(is_undone, restored, refs, effect=task_effect(result))
        refusals: list[RefusedError] = []
        hooks = PlanHooks(on_refusal=refusals.append)
        outcome = self._plans().rollback(str(original["envelope"]["envelope_id"]), hooks=hooks)
        errors = [one.tree() for one in outcome.errors]
        for problem in refusals[:1]:
            if errors and problem.reason is Reason.DRIFTED:
                # The advice of a plan names options of `remit rollback`, which a goal does not have.
                errors[0]["message"] = f"{problem.what} (at {problem.where}). {DRIFT_ADVICE}"
        payload: dict[str, Any] = {
            "type": "undo",
            "status": outcome.status,
            "order_id": outcome.order_id,
            "errors": errors,
        }
        is_undone, refs = outcome.status == "EXECUTED", (f"rollback/{outcome.order_id}",)
        return BoundActionResult(is_undone, payload, refs, effect=rollback_effect(outcome.status))

    def _approved(
        self, simulation: Simulation, bound: PlanAction, name: str, deadline: float, as_seen: str | None
    ) -> dict[str, Any]:
        """Approve the plan: the confirmation, or the policy, is for exactly this plan, so the protocol key signs it.

        `as_seen` is the preview with the effect that the user confirmed. No other preview is approved then.
        """
        plan = Plan.from_tree(bound.plan(name), source="the simulation's plan")
        who = f"simulation {simulation.id}"
        hooks = PlanHooks(is_cancelled=lambda: time.monotonic() > deadline)
        try:
            # A user who confirms an irreversible simulation has read that it is one. Only a preview can say which
            # actions need this approval.
            is_final = simulation.impact == "irreversible"
            with released():
                named = tuple(self._plans().preview(plan.canonical(), hooks).needs.irreversible) if is_final else ()
                approvals = Approvals(protected=(), executable=(), content=(), irreversible=named)
                raw = plan.canonical()
                return self._plans().approve(raw, approvals, ENVELOPE_LIFE, who, as_seen=as_seen, hooks=hooks).tree()
        except RemitError as problem:
            if time.monotonic() > deadline:  # the run on copies was stopped at the time limit
                raise RefusedError(
                    Reason.TIMED_OUT,
                    "the preview took longer than the time limit of the simulation",
                    where=who,
                    next_step="Let the plan do less, or raise timeout_seconds of the simulation.",
                ) from problem
            raise

    def _prepared_for(self, envelope: DispatchEnvelope) -> dict[str, Any]:
        """Return the checkpoint data of the dispatch that is to be undone."""
        undone = undone_step(envelope)
        original, step_id = undone if undone is not None else ("", "")
        with self._ledger().store.reading_pooled() as connection:
            events = step_events(connection, envelope.tenant_id, original)
            own = [one.row for one in events if one.row.step_id == step_id and one.row.simulation_entry_ref]
            key = (own[-1].simulation_entry_ref or "").removeprefix("simulation/") if own else ""
            found = read_claim(connection, ClaimKey(envelope.tenant_id, "simulation", key))
        if not isinstance(found, ClaimCompleted):
            raise RefusedError(
                Reason.STATE_MISSING,
                "the goal that is to be undone was never run",
                where=f"correlation {original}",
                next_step="`remit ledger trace` shows the state of that goal.",
            )
        checkpoint = json.loads(read_recorded_checkpoint(self._ledger(), self._hosts, found))
        recorded = checkpoint["envelope"]
        if (recorded["tenant_id"], recorded["correlation_id"], recorded["step_id"]) != (
            envelope.tenant_id,
            original,
            step_id,
        ):
            raise RefusedError(
                Reason.EVIDENCE_INVALID,
                "the record under this goal's key belongs to another goal",
                where=f"correlation {original}",
                next_step="Keep the database as it is and run `remit ledger verify`.",
            )
        prepared: dict[str, Any] = checkpoint["prepared"]
        if prepared["type"] not in {"task", "plan"}:
            raise RefusedError(
                Reason.GOAL_CONFLICT,
                f"an undo binding cannot reverse a binding of type {prepared['type']}",
                where=f"correlation {original}",
                next_step="Name a rollback simulation that reverses the effect with an action of its own.",
            )
        task = (
            find_claim(self._ledger(), "task", str(prepared["manifest"]["task_id"]))
            if prepared["type"] == "task"
            else None
        )
        if isinstance(task, ClaimCompleted) and ExecutionResult.parse(task.result.encode()).status != "SUCCESS":
            raise RefusedError(
                Reason.GOAL_CONFLICT,
                "there is nothing to undo: the task failed and left no changes",
                where=f"correlation {original}",
                next_step="`remit ledger trace` shows the outcome.",
            )
        return prepared


def _with_outputs(given: Mapping[str, JsonValue]) -> dict[str, Any]:
    return {OUTPUTS: dict(given)} if given else {}


def action_id_of(tenant_id: str, idempotency_key: str) -> str:
    """Derive the id of an action from the tenant and the key of its dispatch, which does not name the tenant.

    Tasks, plans and browser actions have one tenant for all.
    """
    return f"goal-{digest([tenant_id, idempotency_key]).removeprefix('sha256:')[:48]}"
