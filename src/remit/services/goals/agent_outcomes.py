"""What an agent is shown of the outcome of a goal: as much as of a task or a plan that it requested itself.

The bound action of a goal is a task, a plan, an undo or an action in the browser. `task.run` and `plan.propose`
withhold digests and errors that depend on files and rows. So does the answer to a goal, for an agent. The rows of a
read-only query are what the goal asked for, and a policy of a person lets this user ask for them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from remit.contracts.goals.goal import AgentExecutionOutcome
from remit.contracts.tasks.result import ExecutionResult
from remit.core.errors import Reason, RemitError
from remit.goals.composite.driver import Situation
from remit.goals.service import Reply
from remit.goals.simulation_executor import OUTPUTS
from remit.services.agent_tasks import DIGEST_WITHHELD, has_content_digest, result_for_agent
from remit.services.goals.steps import STEPS_WITHHELD, has_derived_values
from remit.services.plans.agent_views import DISCLOSED_REASONS
from remit.workspace.workspace import Workspace

OUTCOME_WITHHELD: Final = (
    "An agent sees how the action of a goal ended. A person sees its errors and the digests of its reports. Null means"
    " that a value is withheld. It does not mean none."
)
USER_MUST_CONFIRM: Final = "waits for the confirmation of its user, who sees its values."
_STATUS_WITHHELD: Final = ("folder", "report_digest", "change_log_digest", "manifest_digest", "key_id", "signature")
"""Fields of a signed status. The name of the folder is that of the report. A signature would be of other digests."""
Payload = Mapping[str, Any]


def reply_for_agent(workspace: Workspace, reply: Reply) -> Reply:
    """Return a reply without digests of content, errors that quote it, and values that a step read for another step."""
    outcome = outcome_for_agent(workspace, reply.outcome)
    situation = workspace.goals.read_situation(reply.goal)
    if situation is not None and has_derived_values(situation, outcome.step_id or ""):
        changed: dict[str, Any] = {}
        if situation.history.event == "CONFIRMATION_REQUESTED":  # the question has values that only people see
            changed = {"user_visible_text": _text_without_values(outcome, situation), "text_language": "en"}
        if outcome.simulation_outcome is not None:  # its result or its error may name the values
            payload = {"type": outcome.simulation_outcome.payload.get("type"), "withheld": STEPS_WITHHELD}
            changed["simulation_outcome"] = outcome.simulation_outcome.model_copy(update={"payload": payload})
        outcome = outcome.model_copy(update=changed)
    return replace(reply, outcome=outcome)


def _text_without_values(outcome: AgentExecutionOutcome, situation: Situation) -> str:
    place, step = next(
        (place, each) for place, each in enumerate(situation.steps, start=1) if each.step_id == outcome.step_id
    )
    return f"Step {place} of {len(situation.steps)}, {step.name} ({step.simulation_id}), {USER_MUST_CONFIRM}"


def outcome_for_agent(workspace: Workspace, outcome: AgentExecutionOutcome) -> AgentExecutionOutcome:
    """Return the outcome of a goal without digests of content and without errors that quote it."""
    simulated = outcome.simulation_outcome
    if simulated is None:
        return outcome
    payload = {k: v for k, v in _payload_for_agent(workspace, simulated.payload).items() if k != OUTPUTS}
    return outcome.model_copy(update={"simulation_outcome": simulated.model_copy(update={"payload": payload})})


def _payload_for_agent(workspace: Workspace, payload: Payload) -> Payload:
    if "error" in payload:
        return _refusal(payload)
    if "left_out" in payload:  # it has its type, and nothing of the result
        return {"type": payload.get("type"), "withheld": OUTCOME_WITHHELD}
    shown: Callable[[Workspace, Payload], Payload] | None = _SHOWN.get(str(payload.get("type")))
    if shown is None:
        return {"type": payload.get("type"), "withheld": OUTCOME_WITHHELD}
    return shown(workspace, payload)


def _task(workspace: Workspace, payload: Payload) -> Payload:
    try:
        result = ExecutionResult.from_tree(payload["result"], source="the outcome of a goal")
    except (RemitError, KeyError):
        return {"type": payload.get("type"), "result": None, "withheld": OUTCOME_WITHHELD}
    if not has_content_digest(result):
        return payload
    return {**payload, "result": result_for_agent(workspace, result).tree(), "withheld": DIGEST_WITHHELD}


def _plan(_: Workspace, payload: Payload) -> Payload:
    status = payload.get("status")
    if isinstance(status, Mapping):
        status = {name: None if name in _STATUS_WITHHELD else value for name, value in status.items()}
    shown = {name: payload[name] for name in ("type", "report_id", "answer") if name in payload}
    return {**shown, "status": status, "errors": None, "withheld": OUTCOME_WITHHELD}


def _undo(workspace: Workspace, payload: Payload) -> Payload:
    if "result" in payload:
        return _task(workspace, payload)
    status = payload.get("status")
    return {
        "type": "undo",
        # A run that changed nothing looks like one that was rolled back.
        "status": "EXECUTED" if status == "NOTHING" else status,
        "order_id": payload.get("order_id"),
        "errors": None,
        "withheld": OUTCOME_WITHHELD,
    }


def _browser(_: Workspace, payload: Payload) -> Payload:
    return payload


def _refusal(payload: Payload) -> Payload:
    """Return the error that ended the dispatch, if it depends on authority or the machine alone."""
    error = payload["error"]
    if isinstance(error, Mapping) and error.get("reason") in {str(Reason(each)) for each in DISCLOSED_REASONS}:
        return payload
    return {"error": None, "withheld": OUTCOME_WITHHELD}


_SHOWN: Final[Mapping[str, Callable[[Workspace, Payload], Payload]]] = {
    "task": _task,
    "plan": _plan,
    "undo": _undo,
    "browser": _browser,
}
"""By the type of the bound action. Everything of another type is withheld."""
