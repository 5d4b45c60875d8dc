"""May this goal be dispatched? Pure: from the evidence alone, so that the same evidence gives the same answer again.

The gates stand in this order, and the first that says no decides: the packet's kind; one clear candidate; a packet for
this goal and catalogue; registered; fields; a way back; a person's yes; access; ACTIVE. The Finder's first candidate is
taken as it is: nothing here ranks, scores or chooses.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from remit.contracts.browser.browser import APPROVAL_SECONDS
from remit.contracts.goals.error_codes import AgentCode
from remit.contracts.goals.packets import (
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
from remit.goals.confirmation.parser import Lexicon, ParsedConfirmation

Event = Literal["CLARIFIED", "REFUSED", "ESCALATED", "CONFIRMATION_REQUESTED", "APPROVAL_REQUESTED", "ACCESS_ALLOWED"]
MAX_ANSWERS: Final = 3
"""Answers that a person may give to one question before it counts as refused."""
ANSWER_LIFE: Final = timedelta(minutes=10)
"""How long a question may be answered: a yes is to what somebody has just read."""
APPROVAL_LIFE: Final = timedelta(seconds=APPROVAL_SECONDS)
"""How long somebody else's approval can be given and used, once it was asked for: as long as the browser's."""
NOT_IN_TIME: Final = "somebody else's approval was asked for, and was not given and used in time"


@dataclass(frozen=True, slots=True)
class ConfirmationReply:
    """What a person said to the question, when it was asked and answered, and the how-manyth answer it is."""

    text: str
    asked_at: str
    answered_at: str
    number: int


@dataclass(frozen=True, slots=True)
class ApprovalWindow:
    """When somebody else's approval was asked for, when the answer to that came, and when it is decided on."""

    asked_at: str
    answered_at: str | None
    decided_at: str

    @property
    def is_over(self) -> bool:
        return not is_within(parse_time(self.asked_at), parse_time(self.decided_at), APPROVAL_LIFE)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a decision depends on. `planned` is the simulation's digest, once a plan was made of the packet."""

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
    """Asked right before the effect: what would have to wait for somebody then is refused."""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What becomes of the step, and what was found on the way there."""

    event: Event
    reason_code: AgentCode
    entry: CatalogueEntry | None = None
    parsed: ParsedConfirmation | None = None
    access: AccessAnswer | None = None
    why: str = ""

    @property
    def dispatches(self) -> bool:
        return self.event == "ACCESS_ALLOWED"


def needs_confirmation(simulation: Simulation) -> bool:
    return simulation.impact != "read_only"


def decide(evidence: Evidence) -> GateVerdict:
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
    if others and (first.score is None or others[0].score is None or others[0].score >= first.score):
        return GateVerdict("REFUSED", "CANDIDATES_UNRESOLVED", why="the Finder's first two candidates are equal")
    entry = evidence.catalogue.find(first.simulation_id)
    if stale := _stale(evidence, entry):
        return GateVerdict("REFUSED", "PACKET_INVALID", why=stale)
    if entry is None:
        return GateVerdict("REFUSED", "SIMULATION_NOT_REGISTERED")
    if problem := _fields_problem(entry.simulation, packet):
        return GateVerdict("REFUSED", "FIELDS_INVALID", entry, why=problem)
    if needs_confirmation(entry.simulation) and not _rollback_entry(entry.simulation, evidence.catalogue):
        return GateVerdict("REFUSED", "ROLLBACK_PLAN_MISSING", entry)
    return _check_confirmation(evidence, entry)


def rollback_ref(simulation: Simulation, catalogue: Catalogue) -> str | None:
    """The simulation that would take this one back, by its id and its very definition."""
    entry = _rollback_entry(simulation, catalogue)
    return f"{entry.simulation.id}@{entry.digest}" if entry is not None else None


def build_access_question(evidence: Evidence, simulation: Simulation) -> AccessQuestion:
    return AccessQuestion(
        tenant_id=evidence.tenant_id,
        user_id=evidence.user_id,
        access_action=simulation.access_action,
        simulation_id=simulation.id,
        impact=simulation.impact,
        risk=simulation.risk,
        language=evidence.language_tag,
        fields=getattr(evidence.packet, "fields", {}),
    )


def _stale(evidence: Evidence, entry: CatalogueEntry | None) -> str:
    packet = evidence.packet
    if packet.correlation_id != evidence.correlation_id:
        return "the packet is about another goal"
    if evidence.planned is None:
        if packet.catalog_snapshot_ref != evidence.catalogue.ref:
            return "the packet was made from another catalogue"
    elif entry is None or entry.digest != evidence.planned:
        return "the simulation was changed since the goal was planned"
    return ""


def _fields_problem(simulation: Simulation, packet: SimulationMatchPacket) -> str:
    try:
        require_fields(simulation, packet.fields)
    except RefusedError as problem:
        return f"{problem.what} (at {problem.where})"
    return ""


def _rollback_entry(simulation: Simulation, catalogue: Catalogue) -> CatalogueEntry | None:
    return catalogue.find(simulation.rollback) if simulation.rollback else None


def _check_confirmation(evidence: Evidence, entry: CatalogueEntry) -> GateVerdict:
    if not needs_confirmation(entry.simulation):
        return _check_access(evidence, entry, None)
    answered = evidence.answered
    if answered is None:
        return GateVerdict("CONFIRMATION_REQUESTED", "CONFIRMATION_REQUIRED", entry)
    parsed = evidence.lexicon.parse(evidence.language_tag, answered.text)
    if not is_within(parse_time(answered.asked_at), parse_time(answered.answered_at), ANSWER_LIFE):
        return GateVerdict("REFUSED", "CONFIRMATION_EXPIRED", entry, parsed)
    if parsed.verdict == "REFUSED":
        return GateVerdict("REFUSED", "CONFIRMATION_REFUSED", entry, parsed)
    if parsed.verdict != "CONFIRMED":
        event: Event = "CONFIRMATION_REQUESTED" if answered.number < MAX_ANSWERS else "REFUSED"
        return GateVerdict(event, "CONFIRMATION_AMBIGUOUS", entry, parsed, why=parsed.why)
    return _check_access(evidence, entry, parsed)


def _check_access(evidence: Evidence, entry: CatalogueEntry, parsed: ParsedConfirmation | None) -> GateVerdict:
    access = evidence.policy.decide(build_access_question(evidence, entry.simulation))
    if (
        access.verdict != "DENIED"
        and evidence.approval != "DENIED"
        and evidence.approval_window
        and evidence.approval_window.is_over
    ):
        # Whatever the policy says by now: the user's own yes is as old.
        return GateVerdict("REFUSED", "ACCESS_AP_REQUIRED", entry, parsed, access, NOT_IN_TIME)
    approved = access.verdict == "ALLOWED" or (
        access.verdict == "APPROVAL_REQUIRED" and evidence.approval == "APPROVED"
    )
    if not approved:
        if access.verdict == "APPROVAL_REQUIRED" and evidence.approval is None:
            event: Event = "REFUSED" if evidence.final else "APPROVAL_REQUESTED"
            return GateVerdict(event, "ACCESS_AP_REQUIRED", entry, parsed, access, access.why)
        return GateVerdict("REFUSED", "ACCESS_SCOPE_VIOLATION", entry, parsed, access, access.why)
    if entry.state != "ACTIVE":
        return GateVerdict("REFUSED", "SIMULATION_NOT_ACTIVE", entry, parsed, access, f"it is {entry.state}")
    return GateVerdict("ACCESS_ALLOWED", "ACCESS_ALLOWED", entry, parsed, access)
