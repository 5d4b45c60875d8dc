"""Finds approval requests by id or by the beginning of an id, and finds the lasting request to use again.

A lasting request does not depend on a process. It is created once, and again if the effect differs from what was shown.
"""

from datetime import datetime
from typing import Final

from remit.approvals.errors import STATE_LABELS
from remit.approvals.transitions import change_state
from remit.contracts.browser.browser import LASTING
from remit.core.errors import Reason, RefusedError
from remit.core.ids import render_time
from remit.ledger.writer import Batch
from remit.store.approvals import ApprovalRow, find_row, newest_same, open_rows, pending_rows_beginning, rows_beginning
from remit.store.connection import Connection

_SUPERSEDED: Final = "a new approval request replaced it, because the effect is no longer the one shown here"


def find_reusable(batch: Batch, request: ApprovalRow, since: datetime) -> ApprovalRow | None:
    """Find the open or denied request that is the same as `request`. Void the other open ones of its action."""
    same = newest_same(batch.store, request, render_time(since), request.created_at)
    reusable = same if same is not None and (same.is_open or same.state == "DENIED") else None
    for row in list(open_rows(batch.store, request.tenant_id)):
        is_older = row.host == LASTING and (row.action_id, row.token_jti) == (request.action_id, request.token_jti)
        if is_older and (reusable is None or row.approval_id != reusable.approval_id):
            change_state(batch, row, "VOID", None, _SUPERSEDED)
    return reusable


SHORTEST_PREFIX: Final = 4
_MOST_NAMED: Final = 4


def find_approval(connection: Connection, tenant_id: str, name: str) -> ApprovalRow:
    """Find a request by its whole id, or by a beginning that no other request has.

    Closed requests are searched too, also for an approval. Ids begin with the time: an agent could withdraw the request
    that a person has just read, and make another one whose id begins in the same way.
    """
    found = find_row(connection, tenant_id, name)
    if found is not None:
        return found
    rows = rows_beginning(connection, tenant_id, name) if len(name) >= SHORTEST_PREFIX else []
    if len(rows) == 1:
        return rows[0]
    if rows:
        raise _ambiguous(name, rows)
    raise RefusedError(
        Reason.STATE_MISSING,
        "there is no such approval request",
        where=f"approval request {name}",
        next_step="List the pending requests: remit approvals",
    )


def find_approval_to_deny(connection: Connection, tenant_id: str, name: str) -> ApprovalRow:
    """Find a request to deny. If only one pending request has this beginning, it is meant: a denial does no harm."""
    if len(name) >= SHORTEST_PREFIX:
        waiting = pending_rows_beginning(connection, tenant_id, name)
        if len(waiting) == 1:
            return waiting[0]
    return find_approval(connection, tenant_id, name)


def _ambiguous(name: str, rows: list[ApprovalRow]) -> RefusedError:
    named = ", ".join(f"{row.approval_id} ({STATE_LABELS[row.state]})" for row in rows[:_MOST_NAMED])
    more = ", and more" if len(rows) > _MOST_NAMED else ""
    return RefusedError(
        Reason.STATE_MISSING,
        "more than one approval request has an id with this beginning",
        where=f"approval request {name}",
        next_step=f"Give the whole id: {named}{more}.",
    )
