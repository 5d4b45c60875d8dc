"""Questions that no process holds anything for: put once, and put anew when what would happen is not what was shown."""

from datetime import datetime
from typing import Final

from remit.approvals.transitions import take_step
from remit.contracts.browser.browser import LASTING
from remit.core.ids import render_time
from remit.ledger.writer import Batch
from remit.store.approvals import ApprovalRow, newest_same, open_rows

_OTHERWISE: Final = "it was asked anew, since it is not any more what was shown here"


def find_standing(batch: Batch, asked: ApprovalRow, since: datetime) -> ApprovalRow | None:
    """What stands for what is asked now: an open question, or a no. Others of the same key are void from here on."""
    same = newest_same(batch.store, asked, render_time(since), asked.created_at)
    stands = same if same is not None and (same.is_open or same.state == "DENIED") else None
    for row in list(open_rows(batch.store, asked.tenant_id)):
        is_older = row.host == LASTING and (row.action_id, row.token_jti) == (asked.action_id, asked.token_jti)
        if is_older and (stands is None or row.approval_id != stands.approval_id):
            take_step(batch, row, "VOID", None, _OTHERWISE)
    return stands
