"""Hints beside the outcome of a goal: the reason, the deciding policies, and simulations that the user may have meant.

Hints are not part of a decision, and they choose nothing. The user reads them and may ask again.
"""

from typing import Any, NamedTuple

from remit.contracts.goals.finder_proof import FinderProof
from remit.contracts.goals.packets import ClarifyPacket
from remit.core.errors import RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.goals.actions.runner import DRIFT_ADVICE
from remit.goals.finder.finder import EmbeddedFinder
from remit.goals.finder.suggestions import Near
from remit.goals.finder.value_errors import explain_unread_field
from remit.goals.service import Reply
from remit.goals.status import refusal_of
from remit.ledger.documents import load_document
from remit.services.goals.drift import name_later_goal
from remit.services.goals.reasons import DecidingPolicy, Explained, describe_failure, explain_event
from remit.workspace.workspace import Workspace


class Hints(NamedTuple):
    why: str = ""
    rules: tuple[DecidingPolicy, ...] = ()
    near: tuple[Near, ...] = ()

    def tree(self) -> dict[str, Any]:
        return {
            "why": self.why or None,
            "policies": [{"id": each.policy_id, "reason": each.reason or None} for each in self.rules],
            "did_you_mean": [{**each._asdict(), "languages": list(each.languages)} for each in self.near],
        }


def build_hints(workspace: Workspace, reply: Reply, answered_field: str | None) -> Hints:
    """Build the hints of a reply. `answered_field` is the field whose question the goal's text answers, if any."""
    outcome = reply.outcome
    if outcome.reason_code == "CLARIFY_REQUIRED":
        return Hints(explain_clarification(workspace, reply, answered_field))
    if outcome.reason_code == "SIMULATION_MISSING":
        return Hints(near=_nearest(workspace, reply))
    gate = explain_gate(workspace, reply)
    if outcome.simulation_outcome is not None:
        why = describe_failure(outcome.simulation_outcome.payload)
        return Hints(f"{why} {name_later_goal(workspace, reply)}".strip() if DRIFT_ADVICE in why else why, gate.rules)
    return Hints(_refusal(workspace, reply) or gate.why, gate.rules)


def explain_clarification(workspace: Workspace, reply: Reply, answered_field: str | None) -> str:
    """Explain why the text of the user gives no valid value for the requested field. Empty if it names no value."""
    goal, packet = reply.goal, reply.goal.sim_finder_packet
    if not isinstance(packet, ClarifyPacket):
        return ""
    try:
        with workspace.store.reading() as connection:
            proof = FinderProof.from_tree(load_document(connection, goal.tenant_id, packet.proof_ref))
        entry = workspace.promotion.catalogue(goal.tenant_id).find(proof.simulation_id or "")
    except RemitError:  # another Finder's question, or the files were changed since
        return ""
    if entry is None:
        return ""
    utterance, answers = goal.raw_user_utterance, answered_field == packet.field
    return explain_unread_field(
        entry.simulation, packet.field, goal.language_tag, utterance, answers=answers, known=proof.fields
    )


def find_clarified_field(workspace: Workspace, tenant: str, user: str, correlation_id: str) -> str | None:
    """Return the field that an earlier goal of the conversation asked for, if it asked for one."""
    packet = workspace.goals.stored_goal(correlation_id, user=user, tenant=tenant).sim_finder_packet
    return packet.field if isinstance(packet, ClarifyPacket) else None


def _nearest(workspace: Workspace, reply: Reply) -> tuple[Near, ...]:
    """Return the nearest simulations in the current catalogue of the tenant. Empty if the user is not of the tenant."""
    goal, finder = reply.goal, workspace.goals.finder
    try:
        if goal.user_id not in workspace.config.tenants[goal.tenant_id].users:
            return ()
        catalogue = workspace.promotion.catalogue(goal.tenant_id)
    except RemitError:
        return ()
    embedded = finder if isinstance(finder, EmbeddedFinder) else EmbeddedFinder()
    return embedded.nearest(goal.language_tag, goal.raw_user_utterance, catalogue)


def explain_gate(workspace: Workspace, reply: Reply) -> Explained:
    """Explain the decision of the gates about a goal. It depends on no file and no row."""
    goal, event = reply.goal, reply.outcome.audit_event_id
    with workspace.store.reading() as connection:
        return explain_event(connection, lambda: workspace.keyring, goal.tenant_id, goal.correlation_id, event)


def _refusal(workspace: Workspace, reply: Reply) -> str:
    """Return the details of a refusal that the text for the user omits. The reader here may also see the ledger."""
    goal, event = reply.goal, reply.outcome.audit_event_id
    with workspace.store.reading() as connection:
        for tenant in dict.fromkeys((goal.tenant_id, DEFAULT_TENANT)):
            error = refusal_of(connection, tenant, goal.correlation_id, event)
            if error is not None:
                where = f" (at {error['where']})" if error.get("where") else ""
                return f"{error.get('what', '')}{where}. {error.get('next_step', '')}".strip()
    return ""
