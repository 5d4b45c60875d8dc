"""Rows about questions to a person: in and out, and what of a row never changes."""

import json
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from remit.contracts.browser.browser import Approval, ApprovalState
from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError
from remit.store.connection import Connection


class ApprovalRow(NamedTuple):
    """In column order. From `tenant_id` to `expires_at` it never changes."""

    tenant_id: str
    approval_id: str
    agent_id: str
    token_jti: str
    action_id: str
    action_digest: str
    request_digest: str
    preview: str
    screenshot: str | None
    host: str
    created_at: str
    expires_at: str
    requested_seq: int
    state: ApprovalState
    decided_by: str | None
    decided_at: str | None
    reason: str | None
    entry_seq: int

    @property
    def bound_digest(self) -> str:
        """Of all that was asked. The ledger's entries carry it, so that a row which was changed is noticed."""
        return digest(dict(zip(_BOUND, self, strict=False)))

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    def as_approval(self) -> Approval:
        try:
            return Approval.model_validate(self._tree(json.loads(self.preview)))
        except ValueError:
            raise RefusedError(
                Reason.EVIDENCE_INVALID,
                "this question is not as Remit wrote it",
                where=f"question {self.approval_id}",
                next_step="Keep the database as it is and run `remit ledger verify`.",
            ) from None

    def _tree(self, preview: Any) -> dict[str, Any]:
        return {
            "approvalId": self.approval_id,
            "agentId": self.agent_id,
            "tokenJti": self.token_jti,
            "actionId": self.action_id,
            "actionDigest": self.action_digest,
            "requestDigest": self.request_digest,
            "preview": preview,
            "screenshot": self.screenshot,
            "host": self.host,
            "createdAt": self.created_at,
            "expires": self.expires_at,
            "state": self.state,
            "decidedBy": self.decided_by,
            "decidedAt": self.decided_at,
            "reason": self.reason,
        }


KIND_OF: Final[dict[ApprovalState, str]] = {
    "PENDING": "approval.requested",
    "APPROVED": "approval.approved",
    "DENIED": "approval.denied",
    "EXPIRED": "approval.expired",
    "VOID": "approval.voided",
    "USED": "approval.used",
}
"""Which entry of the ledger each step has."""
OPEN: Final[frozenset[ApprovalState]] = frozenset({"PENDING", "APPROVED"})
"""States that something can still come of."""
_BOUND: Final = ApprovalRow._fields[: ApprovalRow._fields.index("requested_seq")]
"""What was asked: it never changes."""
_COLUMNS: Final = ", ".join(ApprovalRow._fields)
_INSERT: Final = f"INSERT INTO approvals ({_COLUMNS}) VALUES ({', '.join('?' * len(ApprovalRow._fields))})"
_FIND: Final = f"SELECT {_COLUMNS} FROM approvals WHERE tenant_id = ? AND approval_id = ?"
_BEGINS: Final = f"""SELECT {_COLUMNS} FROM approvals WHERE tenant_id = ? AND approval_id >= ? AND approval_id < ?
  ORDER BY state = 'PENDING' DESC, approval_id DESC LIMIT 10"""
_PENDING_BEGIN: Final = _BEGINS.replace("ORDER BY", "AND state = 'PENDING' ORDER BY")
_OPEN: Final = f"""SELECT {_COLUMNS} FROM approvals
  WHERE tenant_id = ? AND state IN ('PENDING', 'APPROVED') ORDER BY created_at, approval_id"""
_NEWEST: Final = f"""SELECT {_COLUMNS} FROM approvals WHERE tenant_id = ?
  ORDER BY created_at DESC, approval_id DESC LIMIT ?"""
_SAME: Final = f"""SELECT {_COLUMNS} FROM approvals WHERE tenant_id = ?
  AND created_at >= ? AND created_at <= ? AND action_id = ?
  AND action_digest = ? AND request_digest = ? AND token_jti = ? ORDER BY created_at DESC, approval_id DESC LIMIT 1"""
_MOVE: Final = """UPDATE approvals SET state = ?, decided_by = ?, decided_at = ?, reason = ?, entry_seq = ?
  WHERE tenant_id = ? AND approval_id = ? AND state = ?"""
_ENTRY_TIME: Final = "SELECT created_at FROM ledger_entries WHERE tenant_id = ? AND seq = ?"
_LATER: Final = f"""SELECT kind FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ? AND seq > ?
  AND kind IN ({", ".join(f"'{kind}'" for kind in KIND_OF.values())}) AND payload LIKE ?"""


def insert_row(connection: Connection, row: ApprovalRow) -> None:
    connection.execute(_INSERT, row)


def find_row(connection: Connection, tenant_id: str, approval_id: str) -> ApprovalRow | None:
    row = connection.one(_FIND, (tenant_id, approval_id))
    return ApprovalRow(*row) if row else None


def newest_same(connection: Connection, request: ApprovalRow, since: str, until: str) -> ApprovalRow | None:
    """The last question about the very same thing, of the same token, in that time."""
    about = (request.action_id, request.action_digest, request.request_digest, request.token_jti)
    row = connection.one(_SAME, (request.tenant_id, since, until, *about))
    return ApprovalRow(*row) if row else None


def last_step_at(connection: Connection, row: ApprovalRow) -> str:
    """When the entry of its last step was recorded."""
    found = connection.one(_ENTRY_TIME, (row.tenant_id, row.entry_seq))
    return str(found[0]) if found else row.created_at


def was_moved_on(connection: Connection, row: ApprovalRow) -> bool:
    """Whether the ledger knows of a step that the row does not: the second witness. Where it was asked is to be checked
    by whoever calls; of where it stands now nobody but the row says anything, so that is not believed.
    """
    named = f'%"approval_id":"{row.approval_id}"%'
    steps = {kind for (kind,) in connection.rows(_LATER, (row.tenant_id, row.action_id, row.requested_seq, named))}
    return steps != ({KIND_OF[row.state]} if row.state != "PENDING" else set())


def rows_beginning(connection: Connection, tenant_id: str, prefix: str) -> list[ApprovalRow]:
    """At most ten: those that wait first, then the newest."""
    return [ApprovalRow(*row) for row in connection.rows(_BEGINS, (tenant_id, prefix, prefix + "g"))]


def pending_rows_beginning(connection: Connection, tenant_id: str, prefix: str) -> list[ApprovalRow]:
    return [ApprovalRow(*row) for row in connection.rows(_PENDING_BEGIN, (tenant_id, prefix, prefix + "g"))]


def open_rows(connection: Connection, tenant_id: str) -> Iterator[ApprovalRow]:
    """The oldest first."""
    return (ApprovalRow(*row) for row in connection.rows(_OPEN, (tenant_id,)))


def newest_rows(
    connection: Connection, tenant_id: str, states: Collection[ApprovalState], most: int
) -> list[ApprovalRow]:
    rows = (ApprovalRow(*row) for row in connection.rows(_NEWEST, (tenant_id, most)))
    return [row for row in rows if not states or row.state in states]


def move_row(connection: Connection, old: ApprovalRow, new: ApprovalRow) -> bool:
    """From the state it was read in; False if somebody else was faster."""
    changed = (new.state, new.decided_by, new.decided_at, new.reason, new.entry_seq)
    return connection.execute(_MOVE, (*changed, old.tenant_id, old.approval_id, old.state)) == 1
