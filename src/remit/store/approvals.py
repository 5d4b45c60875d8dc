"""Rows of approval requests: read, insert and move them. Some columns of a row never change."""

import json
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from remit.contracts.browser.browser import Approval, ApprovalState
from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError
from remit.store.connection import Connection


class ApprovalRow(NamedTuple):
    """One row, in column order. The columns from `tenant_id` to `expires_at` never change."""

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
        """The digest of the request as it was made. The ledger's entries carry it, so that a changed row is noticed."""
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
                "this approval request is not as Remit wrote it",
                where=f"approval request {self.approval_id}",
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
"""The kind of ledger entry for each state."""
OPEN: Final[frozenset[ApprovalState]] = frozenset({"PENDING", "APPROVED"})
"""States in which an approval request can still have an effect."""
_BOUND: Final = ApprovalRow._fields[: ApprovalRow._fields.index("requested_seq")]
"""The columns of the request itself. They never change."""
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
    """Return the newest request of the same token for the same action, made in this period."""
    about = (request.action_id, request.action_digest, request.request_digest, request.token_jti)
    row = connection.one(_SAME, (request.tenant_id, since, until, *about))
    return ApprovalRow(*row) if row else None


def last_step_at(connection: Connection, row: ApprovalRow) -> str:
    """Return the time of the ledger entry of its last step."""
    found = connection.one(_ENTRY_TIME, (row.tenant_id, row.entry_seq))
    return str(found[0]) if found else row.created_at


def was_moved_on(connection: Connection, row: ApprovalRow) -> bool:
    """Return whether the ledger records a step that the row does not have. The ledger is a second, independent source.

    The caller verifies the entry of the request itself. The place of the last step is in the row only, so it is not
    used here.
    """
    named = f'%"approval_id":"{row.approval_id}"%'
    steps = {kind for (kind,) in connection.rows(_LATER, (row.tenant_id, row.action_id, row.requested_seq, named))}
    return steps != ({KIND_OF[row.state]} if row.state != "PENDING" else set())


def rows_beginning(connection: Connection, tenant_id: str, prefix: str) -> list[ApprovalRow]:
    """Return at most ten rows: pending ones first, then the newest."""
    return [ApprovalRow(*row) for row in connection.rows(_BEGINS, (tenant_id, prefix, prefix + "g"))]


def pending_rows_beginning(connection: Connection, tenant_id: str, prefix: str) -> list[ApprovalRow]:
    return [ApprovalRow(*row) for row in connection.rows(_PENDING_BEGIN, (tenant_id, prefix, prefix + "g"))]


def open_rows(connection: Connection, tenant_id: str) -> Iterator[ApprovalRow]:
    """Return the open rows, the oldest first."""
    return (ApprovalRow(*row) for row in connection.rows(_OPEN, (tenant_id,)))


def newest_rows(
    connection: Connection, tenant_id: str, states: Collection[ApprovalState], most: int
) -> list[ApprovalRow]:
    rows = (ApprovalRow(*row) for row in connection.rows(_NEWEST, (tenant_id, most)))
    return [row for row in rows if not states or row.state in states]


def move_row(connection: Connection, old: ApprovalRow, new: ApprovalRow) -> bool:
    """Change the row if it still has the state in which it was read. Return False if another process was faster."""
    changed = (new.state, new.decided_by, new.decided_at, new.reason, new.entry_seq)
    return connection.execute(_MOVE, (*changed, old.tenant_id, old.approval_id, old.state)) == 1
