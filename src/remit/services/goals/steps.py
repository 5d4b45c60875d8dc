"""The steps of a goal for its readers: what each one runs, and its outcome. It is read from the ledger only.

An agent gets no more than for a goal with a single step. Values that a step read from a database or a file, and that
another step uses, are for people.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from remit.contracts.goals.goal import AgentGoalRequest
from remit.contracts.goals.packets import SimulationMatchPacket
from remit.contracts.goals.simulation import CompositeBinding
from remit.contracts.services.goal_steps import GoalOutcome, GoalStep, GoalSteps, RollbackState, StepState, WaitingStep
from remit.core.errors import RemitError
from remit.goals.composite.driver import Situation
from remit.goals.composite.layout import find_target, rollback_id_of
from remit.goals.composite.order import dependencies, source_of
from remit.goals.composite.progress import ENDINGS, StepProgress
from remit.goals.composite.step_case import StepCase
from remit.goals.decisions import build_goal_documents
from remit.goals.gates import ANSWER_LIFE, APPROVAL_LIFE
from remit.goals.history import WAITING
from remit.goals.messages.catalogue import user_text
from remit.goals.service import Reply
from remit.goals.status import mask_fields
from remit.ledger.goal_queries import Recorded
from remit.services.goals.approvals import expires_at
from remit.services.goals.reasons import describe_failure, explain_event
from remit.workspace.workspace import Workspace

STEPS_WITHHELD: Final = (
    "An agent sees how each step stands. A person sees the values that one step gives to another. Null means that a"
    " value is withheld. It does not mean none."
)
_STATES: Final[Mapping[str, StepState]] = {
    "": "not started",
    "CONFIRMATION_REQUESTED": "waiting",
    "APPROVAL_REQUESTED": "waiting",
    "SUCCEEDED": "done",
    "FAILED": "failed",
    "REFUSED": "refused",
    "ROLLED_BACK": "rolled back",
}
"""Every other event means that the step is under way."""
_ROLLBACK_STATES: Final[Mapping[str, RollbackState]] = {
    "CONFIRMATION_REQUESTED": "waiting",
    "APPROVAL_REQUESTED": "waiting",
    "SUCCEEDED": "done",
    "FAILED": "failed",
    "REFUSED": "refused",
}
_STOPPED: Final = frozenset({"FAILED", "REFUSED", "APPROVAL_REQUESTED"})
Explain = Callable[[Recorded], str]
"""Says in words why a step failed, was refused, or waits for another person."""


def read_steps(workspace: Workspace, reply: Reply, *, for_agent: bool) -> GoalSteps | None:
    """Return the steps of the goal of a reply. None if it has a single step, or the request itself was refused."""
    asked = reply.goal
    if reply.outcome.step_id is None or not getattr(asked.sim_finder_packet, "steps", ()):
        return None
    goal = workspace.goals.stored_goal(asked.correlation_id, user=asked.user_id, tenant=asked.tenant_id)
    situation = workspace.goals.read_situation(goal)
    packet = goal.sim_finder_packet
    if situation is None or not isinstance(packet, SimulationMatchPacket):
        return None
    reader = _StepReader(situation, packet, goal, _explanations(workspace, goal, for_agent=for_agent), for_agent)
    steps = tuple(reader.build(each, place) for place, each in enumerate(situation.progress, start=1))
    return GoalSteps(
        outcome=_outcome_of(situation),
        remaining=_remaining(situation),
        waiting=_find_waiting(situation),
        steps=steps,
        withheld=STEPS_WITHHELD if for_agent else None,
    )


def has_derived_values(situation: Situation, step_id: str) -> bool:
    """Tell whether a step has a value that another step has read. An agent is not shown such a value."""
    return any(each.step_id == step_id and _derived(each.definition) for each in situation.steps)


def _remaining(situation: Situation) -> tuple[str, ...]:
    """Return the steps whose effects are still there, or may be. Empty as long as the goal has not ended."""
    if situation.history.state not in ENDINGS:
        return ()
    return tuple(each.step.name for each in situation.progress if each.may_remain)


def _outcome_of(situation: Situation) -> GoalOutcome:
    state = situation.history.state
    return "WAITING" if state in WAITING else ENDINGS.get(state, "RUNNING")


def _find_waiting(situation: Situation) -> WaitingStep | None:
    last = situation.history.last
    if last is None or last.row.event not in WAITING:
        return None
    is_confirmation = last.row.event == "CONFIRMATION_REQUESTED"
    ids = ((each.step_id, each.name) for each in situation.steps)
    named = {own: name for step_id, name in ids for own in (step_id, rollback_id_of(step_id))}
    return WaitingStep(
        step_id=last.row.step_id,
        step=named.get(last.row.step_id),
        waiting_for="confirmation" if is_confirmation else "approval",
        expires=expires_at(last.created_at, ANSWER_LIFE if is_confirmation else APPROVAL_LIFE),
    )


@dataclass(frozen=True)
class _StepReader:
    """Builds the steps of one goal for one reader."""

    situation: Situation
    packet: SimulationMatchPacket
    goal: AgentGoalRequest
    explain: Explain
    for_agent: bool

    def build(self, progress: StepProgress, place: int) -> GoalStep:
        situation, step = self.situation, progress.step
        entry = situation.catalogue.find(step.simulation_id)
        last, back = situation.last(step.step_id), situation.last(rollback_id_of(step.step_id))
        waiting = _find_waiting(situation)
        return GoalStep(
            name=step.name,
            step_id=step.step_id,
            place=place,
            simulation_id=step.simulation_id,
            title=entry.simulation.title_in(self.goal.language_tag)[:1_000] if entry is not None else "",
            impact=entry.simulation.impact if entry is not None else "",
            depends_on=_needs(situation, step.name),
            state=_STATES.get(progress.event, "running"),
            event=progress.event,
            attempts=progress.attempts,
            reason_code=_code(last),
            reason=self._reason(last),
            rollback=_ROLLBACK_STATES.get(progress.rollback, "running") if progress.rollback else None,
            rollback_reason_code=_code(back),
            rollback_reason=self._reason(back),
            waiting=waiting if waiting is not None and waiting.step == step.name else None,
            **self._values(progress),
        )

    def _reason(self, last: Recorded | None) -> str | None:
        if last is None or last.row.event not in _STOPPED:
            return None
        text = self.explain(last) or user_text(last.row.reason_code or "", self.goal.language_tag).text
        return text[:10_000] or None

    def _values(self, progress: StepProgress) -> dict[str, dict[str, Any]]:
        step, situation = progress.step, self.situation
        target = find_target(self.packet, situation.catalogue, step.step_id, situation.outputs)
        fields = mask_fields(target.fields if target is not None else {})
        outputs = mask_fields(situation.outputs.get(step.name, {}))
        if not self.for_agent:
            return {"fields": fields, "outputs": outputs}
        return {"fields": fields | dict.fromkeys(_derived(step.definition)), "outputs": dict.fromkeys(outputs)}


def _needs(situation: Situation, name: str) -> tuple[str, ...]:
    binding = situation.whole.simulation.binding
    return dependencies(binding).get(name, ()) if isinstance(binding, CompositeBinding) else ()


def _derived(definition: Any) -> tuple[str, ...]:
    """Return the fields of a step whose values are outputs of other steps."""
    values = definition.fields.items() if definition is not None else ()
    return tuple(name for name, given in values if (source := source_of(given)) is not None and source.output)


def _code(last: Recorded | None) -> str | None:
    return last.row.reason_code if last is not None and last.row.event in _STOPPED else None


def _explanations(workspace: Workspace, goal: AgentGoalRequest, *, for_agent: bool) -> Explain:
    def explain(last: Recorded) -> str:
        try:
            if last.row.event == "FAILED":
                # The message of an action may quote text of files and rows.
                return "" if for_agent else _read_failure(workspace, goal, last)
            if for_agent and last.row.reason_code == "FIELDS_INVALID":  # it may be about a value of another step
                return ""
            key = (goal.tenant_id, goal.correlation_id, last.row.event_id)
            with workspace.store.reading() as connection:
                return explain_event(connection, lambda: workspace.keyring, *key).why
        except RemitError:  # a document is lost; a replay reports it
            return ""

    return explain


def _read_failure(workspace: Workspace, goal: AgentGoalRequest, last: Recorded) -> str:
    case = StepCase(goal, build_goal_documents(goal), last.row.step_id)
    outcome = workspace.goals.core.read_step(case).simulation_outcome
    return describe_failure(outcome.payload) if outcome is not None else ""
