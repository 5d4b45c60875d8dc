"""Which question is meant by an id, or by the beginning of one.

Questions that no process holds anything for: put once, and put anew when what would happen is not what was shown.
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

_SUPERSEDED: Final = "it was asked anew, since it is not any more what was shown here"


def find_reusable(batch: Batch, request: ApprovalRow, since: datetime) -> ApprovalRow | None:
    """What stands for what is asked now: an open question, or a no. Others of the same key are void from here on."""
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
    """By its whole id, or by a beginning that is no other's.

    For a yes too, closed questions count: ids begin with the time, so an agent that gives up the question which a
    person has just read, and puts another, has one that begins alike.
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
        "there is no such question",
        where=f"question {name}",
        next_step="List those that wait: remit approvals",
    )


def find_approval_to_deny(connection: Connection, tenant_id: str, name: str) -> ApprovalRow:
    """The same; but a beginning is that of the one which waits, if only one does. A no does no harm."""
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
        "more than one question begins like this",
        where=f"question {name}",
        next_step=f"Give the whole id: {named}{more}.",
    )
