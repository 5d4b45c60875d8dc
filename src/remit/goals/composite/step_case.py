"""One step of a goal, for one cycle of the core."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from remit.contracts.goals.goal import AgentGoalRequest
from remit.contracts.goals.packets import FinderPacket, SimulationMatchPacket
from remit.core.errors import Reason, RefusedError
from remit.goals.catalogue.catalogue import Catalogue
from remit.goals.composite.layout import FIRST_STEP, Outputs
from remit.goals.decisions import GoalDocuments
from remit.ledger.documents import StoredDocument


@dataclass(frozen=True)
class StepCase:
    """One step of a goal. With the defaults, the one step of a goal with a single step."""

    goal: AgentGoalRequest
    documents: GoalDocuments
    step_id: str = FIRST_STEP
    own_packet: SimulationMatchPacket | None = None
    """The packet of a rollback. Every other step has the packet of the goal."""
    outputs: Outputs = field(default_factory=dict)
    planned: str | None = None
    """The digest of the composite, once a step of it was planned."""
    catalogue: Catalogue | None = None
    """The catalogue of the decision. None: the present one."""
    covered_by: str | None = None
    """The confirmation proof of the step that this one rolls back."""
    sequence: Mapping[str, str] | None = None
    """The events that other steps must have when this one begins. None for a goal with a single step."""
    is_answered: bool = True
    """Whether the answer in the goal is for this step."""

    @property
    def packet(self) -> FinderPacket:
        return self.own_packet if self.own_packet is not None else self.goal.sim_finder_packet

    @property
    def answer(self) -> str | None:
        return self.goal.confirm_state.answer if self.is_answered else None


def rollback_documents(documents: GoalDocuments, packet: SimulationMatchPacket) -> GoalDocuments:
    """Return the documents of a rollback step: its own packet, and the goal that it belongs to."""
    return GoalDocuments(StoredDocument("packet", packet.tree()), documents.goal)


def unused_answer_error(goal: AgentGoalRequest) -> RefusedError:
    """Return the refusal of an answer that does not name the step that waits."""
    what = (
        "does not say for which step it is"
        if goal.confirm_state.step_id is None
        else "is for a step that does not wait"
    )
    return RefusedError(
        Reason.CONFIRMATION_MISSING,
        f"the answer {what}; it was not used",
        where=f"correlation {goal.correlation_id}",
        next_step="Read the question of the step that waits now, and answer it with the id of that step.",
    )
