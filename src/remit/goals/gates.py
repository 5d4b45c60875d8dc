"""The gates: the decision whether a step of a goal may be dispatched. Pure: the same evidence gives the same verdict.

The gates have this order, and the first that refuses decides: the kind of the packet; one clear candidate; a packet for
this goal and catalogue; registered; the promoted steps; fields; a rollback; the confirmation; access; ACTIVE. The gates
use the Finder's first candidate. Nothing here ranks, scores or chooses. A goal with several steps passes all gates
again for each step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, Literal

from pydantic import JsonValue

from remit.contracts.browser.browser import APPROVAL_SECONDS
from remit.contracts.goals.error_codes import AgentCode
from remit.contracts.goals.packets import (
    Candidate,
    ClarifyPacket,
    FinderPacket,
    MissingSimulationPacket,
    RefusePacket,
    SimulationMatchPacket,
)
from remit.contracts.goals.simulation import Simulation
from remit.core.errors import RefusedError
from remit.core.ids import is_within, parse_time
from remit.goals.access.policy import AccessAnswer, AccessPolicy, AccessQuestion
from remit.goals.binding.fields import require_fields
from remit.goals.catalogue.catalogue import Catalogue, CatalogueEntry
from remit.goals.composite.layout import (
    FIRST_STEP,
    Outputs,
    StepTarget,
    find_target,
    is_composite,
    is_undo,
    packet_problem,
)
from remit.goals.confirmation.parser import Lexicon, ParsedConfirmation

Event = Literal[
    "CLARIFIED",
    "REFUSED",
    "ESCALATED",
    "CONFIRMATION_REQUESTED",
    "APPROVAL_REQUESTED",
    "ACCESS_ALLOWED",
    "UNDO_ALLOWED",
]
GATES_VERSION: Final = 2
"""The version of these rules. A decision stores it, so that a replay decides by the rules of then.

Version 1 also refused a packet whose first two candidates had no scores, or were not in the order of their scores.
"""
MAX_ANSWERS: Final = 3
"""The number of answers that a user may give to one question. After the last unclear one the goal is refused."""
ANSWER_LIFE: Final = timedelta(minutes=10)
"""How long a user may answer a question. A confirmation is valid only for a text that the user has just read."""
APPROVAL_LIFE: Final = timedelta(seconds=APPROVAL_SECONDS)
"""How long another person's approval can be given and used after the request. The same time as for the browser."""
NO_WORDS: Final = ""
"""The text of an answer that was not given before the time of its question was over."""
NOT_IN_TIME: Final = "the approval of another person was not given and used in time"


@dataclass(frozen=True, slots=True)
class ConfirmationReply:
    """The answer of a user: its text, the times of the question and of the answer, and the number of the answer."""

    text: str
    asked_at: str
    answered_at: str
    number: int


@dataclass(frozen=True, slots=True)
class ApprovalWindow:
    """The times at which another person's approval was requested, answered, and used in a decision."""

    asked_at: str
    answered_at: str | None
    decided_at: str

    @property
    def is_over(self) -> bool:
        return not is_within(parse_time(self.asked_at), parse_time(self.decided_at), APPROVAL_LIFE)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All inputs of a decision about one step.

    `planned` is the digest of the packet's simulation, once a plan was made from the packet.
    """

    tenant_id: str
    user_id: str
    correlation_id: str
    language_tag: str
    packet: FinderPacket
    catalogue: Catalogue
    policy: AccessPolicy
    lexicon: Lexicon
    planned: str | None = None
    answered: ConfirmationReply | None = None
    approval: Literal["APPROVED", "DENIED"] | None = None
    approval_window: ApprovalWindow | None = None
    final: bool = False
    """Whether this is the final gate, right before the effect. It refuses a step that would have to wait."""
    step_id: str = FIRST_STEP
    outputs: Outputs = field(default_factory=dict)
    """The outputs of the completed steps of the goal."""
    covered_by: str | None = None
    """For a rollback inside of a goal: the confirmation proof of the step that it rolls back. It covers both."""
    gates_version: int = GATES_VERSION


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The result for the step, and the findings that led to it."""

    event: Event
    reason_code: AgentCode
    target: StepTarget | None = None
    parsed: ParsedConfirmation | None = None
    access: AccessAnswer | None = None
    why: str = ""

    @property
    def dispatches(self) -> bool:
        return self.event == "ACCESS_ALLOWED"

    @property
    def entry(self) -> CatalogueEntry | None:
        """The simulation of the step."""
        return self.target.entry if self.target is not None else None


def needs_confirmation(simulation: Simulation) -> bool:
    return simulation.impact != "read_only"


def decide(evidence: Evidence) -> GateVerdict:
    """Pass the evidence through the gates, and return the verdict."""
    packet = evidence.packet
    if isinstance(packet, ClarifyPacket):
        return GateVerdict("CLARIFIED", "CLARIFY_REQUIRED")
    if isinstance(packet, RefusePacket):
        return GateVerdict("REFUSED", "FINDER_REFUSED", why=packet.reason_code)
    if isinstance(packet, MissingSimulationPacket):
        return GateVerdict("ESCALATED", "SIMULATION_MISSING")
    return _check_match(evidence, packet)


def _check_match(evidence: Evidence, packet: SimulationMatchPacket) -> GateVerdict:
    first, *others = packet.candidates
    if others and _is_unresolved(evidence, first, others[0]):
        return GateVerdict(
            "REFUSED", "CANDIDATES_UNRESOLVED", why="the Finder's first two candidates have equal scores"
        )
    named = evidence.catalogue.find(first.simulation_id)
    if stale := _stale(evidence, named):
        return GateVerdict("REFUSED", "PACKET_INVALID", why=stale)
    if named is None:
        return GateVerdict("REFUSED", "SIMULATION_NOT_REGISTERED")
    return _check_step(evidence, packet, named)


def _check_step(evidence: Evidence, packet: SimulationMatchPacket, named: CatalogueEntry) -> GateVerdict:
    """Check the step that the evidence is about: a step of the promoted composite, or the simulation itself."""
    if problem := packet_problem(packet, named, evidence.catalogue):
        return GateVerdict("REFUSED", "PACKET_INVALID", why=problem)
    if is_composite(named.simulation) and (problem := _fields_problem(named.simulation, packet.fields)):
        return GateVerdict("REFUSED", "FIELDS_INVALID", why=problem)
    target = find_target(packet, evidence.catalogue, evidence.step_id, evidence.outputs)
    if target is None:
        return GateVerdict("REFUSED", "PACKET_INVALID", why="the goal has no such step")
    if is_undo(evidence.step_id):
        verdict = _check_confirmation(evidence, target)
        # Nothing is dispatched for the whole goal. Each rollback passes the gates on its own.
        return replace(verdict, event="UNDO_ALLOWED") if verdict.dispatches else verdict
    if problem := _fields_problem(target.simulation, target.fields):
        return GateVerdict("REFUSED", "FIELDS_INVALID", target, why=problem)
    if _needs_rollback(target) and not _rollback_entry(target.simulation, evidence.catalogue):
        return GateVerdict("REFUSED", "ROLLBACK_PLAN_MISSING", target)
    return _check_confirmation(evidence, target)


def _needs_rollback(target: StepTarget) -> bool:
    """Every step of a goal with several steps names its rollback, also one that only reads."""
    return target.whole is not None or needs_confirmation(target.simulation)


def _is_unresolved(evidence: Evidence, first: Candidate, second: Candidate) -> bool:
    """Tell whether the Finder did not decide between its first two candidates: it gave them equal scores.

    The order is the Finder's. So a candidate without a score, or with a lower one, is used if the Finder put it first.
    """
    if evidence.gates_version == 1:
        return first.score is None or second.score is None or second.score >= first.score
    return first.score is not None and first.score == second.score


def rollback_ref(simulation: Simulation, catalogue: Catalogue) -> str | None:
    """Return the simulation that rolls this one back, by its id and the digest of its definition."""
    entry = _rollback_entry(simulation, catalogue)
    return f"{entry.simulation.id}@{entry.digest}" if entry is not None else None


def build_access_question(
    evidence: Evidence, simulation: Simulation, fields: Mapping[str, JsonValue]
) -> AccessQuestion:
    return AccessQuestion(
        tenant_id=evidence.tenant_id,
        user_id=evidence.user_id,
        access_action=simulation.access_action,
        simulation_id=simulation.id,
        impact=simulation.impact,
        risk=simulation.risk,
        language=evidence.language_tag,
        fields=fields,
    )


def _stale(evidence: Evidence, entry: CatalogueEntry | None) -> str:
    packet = evidence.packet
    if packet.correlation_id != evidence.correlation_id:
        return "the packet belongs to another goal"
    if evidence.planned is None:
        if packet.catalog_snapshot_ref != evidence.catalogue.ref:
            return "the packet was made from another catalogue"
    elif entry is None or entry.digest != evidence.planned:
        return "the simulation has changed since the goal was planned"
    return ""


def _fields_problem(simulation: Simulation, fields: Mapping[str, JsonValue]) -> str:
    try:
        require_fields(simulation, fields)
    except RefusedError as problem:
        return f"{problem.what} (at {problem.where})"
    return ""


def _rollback_entry(simulation: Simulation, catalogue: Catalogue) -> CatalogueEntry | None:
    return catalogue.find(simulation.rollback) if simulation.rollback else None


def _check_confirmation(evidence: Evidence, target: StepTarget) -> GateVerdict:
    if not needs_confirmation(target.simulation):
        return _check_access(evidence, target, None)
    answered = evidence.answered
    if answered is None and evidence.final:
        return GateVerdict("REFUSED", "CONFIRMATION_MISSING", target)  # too late to ask
    if answered is None:
        return GateVerdict("CONFIRMATION_REQUESTED", "CONFIRMATION_REQUIRED", target)
    parsed = evidence.lexicon.parse(evidence.language_tag, answered.text)
    if not is_within(parse_time(answered.asked_at), parse_time(answered.answered_at), ANSWER_LIFE):
        return GateVerdict("REFUSED", "CONFIRMATION_EXPIRED", target, parsed)
    if parsed.verdict == "REFUSED":
        return GateVerdict("REFUSED", "CONFIRMATION_REFUSED", target, parsed)
    if parsed.verdict != "CONFIRMED":
        event: Event = "CONFIRMATION_REQUESTED" if answered.number < MAX_ANSWERS else "REFUSED"
        return GateVerdict(event, "CONFIRMATION_AMBIGUOUS", target, parsed, why=parsed.why)
    return _check_access(evidence, target, parsed)


def _check_access(evidence: Evidence, target: StepTarget, parsed: ParsedConfirmation | None) -> GateVerdict:
    access = _decide_access(evidence, target)
    if (
        access.verdict != "DENIED"
        and evidence.approval != "DENIED"
        and evidence.approval_window
        and evidence.approval_window.is_over
    ):
        # Refused even if the policy needs no approval now: the user's own confirmation is as old.
        return GateVerdict("REFUSED", "ACCESS_AP_REQUIRED", target, parsed, access, NOT_IN_TIME)
    approved = access.verdict == "ALLOWED" or (
        access.verdict == "APPROVAL_REQUIRED" and evidence.approval == "APPROVED"
    )
    if not approved:
        if access.verdict == "APPROVAL_REQUIRED" and evidence.approval is None:
            event: Event = "REFUSED" if evidence.final else "APPROVAL_REQUESTED"
            return GateVerdict(event, "ACCESS_AP_REQUIRED", target, parsed, access, access.why)
        return GateVerdict("REFUSED", "ACCESS_SCOPE_VIOLATION", target, parsed, access, access.why)
    entries = (each for each in (target.whole, target.entry) if each is not None)
    inactive = next((each for each in entries if each.state != "ACTIVE"), None)
    if inactive is not None:
        which = "" if target.whole is None else f" {inactive.simulation.id}"
        why = f"the simulation{which} is {inactive.state}"
        return GateVerdict("REFUSED", "SIMULATION_NOT_ACTIVE", target, parsed, access, why)
    return GateVerdict("ACCESS_ALLOWED", "ACCESS_ALLOWED", target, parsed, access)


def _decide_access(evidence: Evidence, target: StepTarget) -> AccessAnswer:
    """Decide about the step, and about the composite that it belongs to. The stricter answer is valid.

    The first step also waits for the approval that the composite needs. A later step does not ask for it again.
    """
    access = evidence.policy.decide(build_access_question(evidence, target.simulation, target.fields))
    if target.whole is None:
        return access
    whole_fields = getattr(evidence.packet, "fields", {})
    whole = evidence.policy.decide(build_access_question(evidence, target.whole.simulation, whole_fields))
    if (
        access.verdict == "DENIED"
        or whole.verdict == "ALLOWED"
        or (whole.verdict == "APPROVAL_REQUIRED" and (access.verdict == "APPROVAL_REQUIRED" or not target.is_first))
    ):
        return access
    return whole
