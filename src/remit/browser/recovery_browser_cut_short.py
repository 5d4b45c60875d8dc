"""What became of an action whose process died: told by what the ledger knows of the requests that it caused.

The yes to a request is used up in the transaction of its intent, before a byte of it is sent. So an action without such
an intent surely sent nothing that changes something; with one, it may have.
"""

import json
from dataclasses import dataclass
from typing import Final

from remit.browser.model.masking import cut
from remit.browser.types import CutShort
from remit.contracts.browser.browser import ActionResult
from remit.contracts.browser.errors import NOT_SENT
from remit.core.errors import EnvironmentFailed, Reason
from remit.core.ids import DEFAULT_TENANT
from remit.store.connection import Connection

_REQUESTS: Final = """SELECT kind, payload FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ?
  AND kind IN ('browser_request.intent', 'browser_request.outcome') ORDER BY seq"""
_ENDED: Final = "the browser's process ended"
UNKNOWN: Final = "unknown"
SENT: Final = "sent"
"""How the reason of an action that was cut short begins; or with NOT_SENT."""


@dataclass
class RequestFate:
    """A request whose yes was used up. Without an outcome nobody knows whether it was sent."""

    what: str
    state: str = "UNKNOWN"
    status: int | None = None
    request_id: str = ""
    approval_id: str | None = None
    approved_by: str | None = None


def requests_of(connection: Connection, action_id: str) -> list[RequestFate]:
    found: dict[str, RequestFate] = {}
    for kind, payload in connection.rows(_REQUESTS, (DEFAULT_TENANT, action_id)):
        record = json.loads(payload)
        if kind == "browser_request.intent":
            what = cut(record["preview"].partition(". ")[0].rstrip("."), 200)
            found[record["key"]] = RequestFate(what, request_id=record["key"])
        elif record["key"] in found:
            outcome, fate = record["outcome"], found[record["key"]]
            fate.state, fate.status = outcome["state"], outcome["status"]
            fate.approval_id, fate.approved_by = outcome.get("approval_id"), outcome.get("approved_by")
            fate.what = outcome.get("what") or fate.what
    return list(found.values())


def tell_cut_short(action_id: str, requests: list[RequestFate]) -> CutShort:
    sent = [request for request in requests if request.state != "NOT_SENT"]
    unknown = next((request for request in sent if request.state == "UNKNOWN"), None)
    if not sent:
        reason = Reason.EFFECT_FAILED
        what = f"{NOT_SENT}: {_ENDED} before anything that changes something was sent for this action"
        next_step = "It is safe to ask for it again, under another action_id. Its session is gone: navigate first."
    elif unknown is not None:
        reason = Reason.FATE_UNKNOWN
        what = f"{UNKNOWN}: {_ENDED} after a person had said yes, and the request may have been sent: {unknown.what}"
        next_step = "It is not sent again. Look at the site to see whether it took place."
    else:
        reason = Reason.EFFECT_FAILED
        status = f", and was answered with {sent[-1].status}" if sent[-1].status is not None else ""
        what = f"{SENT}: {_ENDED} after the request had been sent{status}: {sent[-1].what}"
        next_step = "It is not sent again. Its session is gone: navigate, and look at what the site made of it."
    return CutShort(EnvironmentFailed(reason, what, where=action_id, next_step=next_step), len(sent))


def state_of(result: ActionResult) -> str:
    """One word for what a recovered action left; unknown, unless it says otherwise."""
    said = (result.reason or "").partition(": ")[0]
    return said if said in {NOT_SENT, SENT} else UNKNOWN
