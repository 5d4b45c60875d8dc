"""Ownership: an agent sees only the tasks, goals, plans and actions that it requested, and the entries about them.

The ledger records the caller of a task with its intent, and the caller of a goal in the transaction of its first
decision. Browser actions and their approval requests name their agent. An entry without an owner is for people only.
"""

import json
from typing import Final

from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.goals.history import PREVIEW
from remit.identity.callers import MOST, AgentCaller, Caller, agent_id
from remit.ledger.entry import Entry, NewEntry
from remit.ledger.verify.browser_tables import read_payload
from remit.store.connection import Connection
from remit.store.proposals import KIND_OF, row_of_envelope

TASK_REQUESTED: Final = "task.asked"
GOAL_REQUESTED: Final = "goal.asked"
_ACTOR: Final = """SELECT actor FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? AND kind = ? ORDER BY seq LIMIT 1"""
_PROPOSAL_ENTRIES: Final = """SELECT kind, payload FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? AND kind IN (?, ?)"""
_MADE_AND_APPROVED: Final = (KIND_OF["PENDING"], KIND_OF["APPROVED"])
# The kind of entry that names the caller, by the family of an entry. Each family has its own, because an agent chooses
# ids: with the id of another kind of request it must not get that request's entries.
_REQUEST_KINDS: Final = {
    "task": TASK_REQUESTED,
    "agent": GOAL_REQUESTED,
    "goal": GOAL_REQUESTED,
}
_OF_A_PLAN: Final = frozenset({"plan", "rollback", "envelope"})
"""Families whose entries name the envelope. The envelope leads to the proposal that it was signed for."""
_CONTENT_FAMILIES: Final = frozenset({"plan", "rollback", "envelope", "proposal", "task"})
VISIBLE_TO_AGENTS: Final = frozenset(
    {
        *KIND_OF.values(),
        "envelope.issued",
        "envelope.cancelled",
        *(f"{family}.{step}" for family in ("plan", "rollback", "task") for step in ("intent", "outcome", "refused")),
        TASK_REQUESTED,
    }
)
"""Kinds of entries about plans and tasks that an agent gets in the stream of events. Other kinds are for people only.
Their number depends on the content of files and rows: for example, there is one for each file that will change."""


def find_requester(connection: Connection, tenant_id: str, correlation_id: str, kind: str) -> str | None:
    """Return the id of the caller who requested a task or goal, or None if the services did not receive the request."""
    if not is_name(tenant_id, correlation_id):
        return None
    row = connection.one(_ACTOR, (tenant_id, correlation_id, kind))
    return row[0] if row else None


def task_request_entry(caller: Caller, task_id: str, capability_id: str) -> NewEntry:
    return NewEntry(
        DEFAULT_TENANT, TASK_REQUESTED, task_id, describe_authority(caller), task_id, capability_id, actor=caller.actor
    )


def goal_request_entry(caller: Caller, tenant_id: str, correlation_id: str) -> NewEntry:
    return NewEntry(tenant_id, GOAL_REQUESTED, correlation_id, describe_authority(caller), actor=caller.actor)


def describe_authority(caller: Caller) -> dict[str, str]:
    """Return the authority of a caller for the ledger: the token of an agent, or the role of a person."""
    if isinstance(caller, AgentCaller):
        return {"by": "agent", "jti": caller.token.jti}
    return {"by": "person", "role": caller.role}


def find_owner(connection: Connection, entry: Entry) -> str | None:
    """Return the caller who owns the subject of an entry. None if the entry has no owner and is for people only."""
    family = entry.kind.partition(".")[0]
    if family == "approval":
        return _agent(_field(entry, "agent_id"))
    if entry.kind in {"browser.action", "call.audit"}:
        return _agent(entry.actor)
    if family == "proposal":
        proposer = _field(entry, "proposed_by")
        return proposer if isinstance(proposer, str) else None
    if family in _OF_A_PLAN:
        return _proposer_of(connection, entry.tenant_id, entry.correlation_id)
    request_kind = _REQUEST_KINDS.get(family)
    return find_requester(connection, entry.tenant_id, entry.correlation_id, request_kind) if request_kind else None


def find_agent_recipient(connection: Connection, entry: Entry) -> str | None:
    """Return the agent that gets this entry in the stream of events. None if the entry is for people only."""
    return find_owner(connection, entry) if is_visible_to_agents(entry.kind) else None


def is_visible_to_agents(kind: str) -> bool:
    """Return whether agents may get entries of this kind. They may not learn even the number of the others."""
    if kind == PREVIEW:  # its time depends on files
        return False
    return kind.partition(".")[0] not in _CONTENT_FAMILIES or kind in VISIBLE_TO_AGENTS


def _proposer_of(connection: Connection, tenant_id: str, envelope_id: str) -> str | None:
    """Return the proposer of the plan that an envelope was signed for.

    The row alone proves nothing, because it may have been changed. So the ledger entries must say the same.
    """
    row = row_of_envelope(connection, tenant_id, envelope_id)
    if row is None:
        return None
    found = connection.rows(_PROPOSAL_ENTRIES, (tenant_id, row.proposal_id, *_MADE_AND_APPROVED))
    payloads = {kind: read_payload(payload) for kind, payload in found}
    made, approved = (payloads.get(kind, {}) for kind in _MADE_AND_APPROVED)
    is_recorded = (made.get("bound_digest"), approved.get("envelope_id")) == (row.bound_digest, envelope_id)
    return row.proposed_by if is_recorded else None


def require_owner(caller: Caller, requester: str | None, missing: RefusedError) -> None:
    """Raise `missing` for an agent that is not the requester. It cannot learn whether the object exists."""
    if isinstance(caller, AgentCaller) and requester != caller.id:
        raise missing


def is_name(*texts: str) -> bool:
    """Return whether all texts can be ids. Other texts must not reach the database, which may fail on them."""
    return all(0 < len(text) <= MOST and text.isprintable() for text in texts)


def require_name(what: str, *texts: str) -> None:
    if not is_name(*texts):
        raise not_found_error(what, texts[-1])


def not_found_error(what: str, name: str) -> RefusedError:
    return RefusedError(
        Reason.STATE_MISSING,
        f"there is no such {what}",
        where=f"{what} {name}",
        next_step="Check the id. An agent sees only its own requests.",
    )


def _agent(name: object) -> str | None:
    return agent_id(name) if isinstance(name, str) else None


def _field(entry: Entry, name: str) -> object:
    try:
        tree = json.loads(entry.payload)
    except (ValueError, TypeError, RecursionError):
        return None
    return tree.get(name) if isinstance(tree, dict) else None
