"""The requests that were sent for an action, added to its results and errors so that no order is placed twice.

The outcome of an action whose process died is derived from the ledger entries of the requests that it caused.

The approval of a request is used in the transaction of its intent, before a byte of the request is sent. So an action
without such an intent certainly sent no request that changes something. With an intent, it may have sent one.
"""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from remit.approvals.errors import ASK_AGAIN
from remit.browser.checkpoint import parse_action_checkpoint
from remit.browser.model.masking import cut
from remit.browser.types import InterruptedAction
from remit.contracts.browser.browser import ActionResult, Approval, HTTPPreview
from remit.contracts.browser.errors import NOT_SENT
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.store.claims import ClaimCompleted, ClaimKey, read_claim
from remit.store.connection import Connection

_REQUESTS: Final = """SELECT kind, payload FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ?
  AND kind IN ('browser_request.intent', 'browser_request.outcome') ORDER BY seq"""
_ENDED: Final = "the browser's process ended"
UNKNOWN: Final = "unknown"
SENT: Final = "sent"
"""The first word of the reason of an interrupted action. The reason of one that sent nothing begins with NOT_SENT."""


@dataclass
class RequestFate:
    """A request whose approval was used. Without an outcome it is unknown whether it was sent."""

    what: str
    state: str = "UNKNOWN"
    status: int | None = None
    request_id: str = ""
    approval_id: str | None = None
    approved_by: str | None = None


def read_requests(connection: Connection, action_id: str) -> list[RequestFate]:
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


def build_interrupted(action_id: str, requests: list[RequestFate]) -> InterruptedAction:
    sent = [request for request in requests if request.state != "NOT_SENT"]
    unknown = next((request for request in sent if request.state == "UNKNOWN"), None)
    if not sent:
        reason = Reason.EFFECT_FAILED
        what = f"{NOT_SENT}: {_ENDED} before this action sent a request that changes something"
        next_step = "It is safe to ask for it again, under another action_id. Its session has ended, so navigate first."
    elif unknown is not None:
        reason = Reason.FATE_UNKNOWN
        what = f"{UNKNOWN}: {_ENDED} after a person had approved it, and the request may have been sent: {unknown.what}"
        next_step = "Remit does not send it again. Look at the site to see whether it took effect."
    else:
        reason = Reason.EFFECT_FAILED
        status = f", and was answered with {sent[-1].status}" if sent[-1].status is not None else ""
        what = f"{SENT}: {_ENDED} after the request had been sent{status}: {sent[-1].what}"
        next_step = "Remit does not send it again. Its session has ended: navigate, and look at the result on the site."
    return InterruptedAction(EnvironmentFailureError(reason, what, where=action_id, next_step=next_step), len(sent))


def read_state(result: ActionResult) -> str:
    """Return the state of a recovered action in one word. It is unknown unless the reason begins with another."""
    prefix = (result.reason or "").partition(": ")[0]
    return prefix if prefix in {NOT_SENT, SENT} else UNKNOWN


@dataclass(frozen=True, slots=True)
class EarlierAction:
    """An action that was begun before, under exactly the token with which it is requested again."""

    has_ended: bool
    sent: int


def find_earlier(connection: Connection, action_id: str, request_digest: str, jti: str) -> EarlierAction | None:
    """Find the action in the ledger. None for another action, or for another token than the one of its begin."""
    found = read_claim(connection, ClaimKey(DEFAULT_TENANT, "browser", action_id))
    if found is None or found.request_digest != request_digest:
        return None
    with contextlib.suppress(RemitError):  # an unreadable checkpoint proves no token
        if parse_action_checkpoint(found.checkpoint).jti == jti:
            sent = sum(request.state != "NOT_SENT" for request in read_requests(connection, action_id))
            return EarlierAction(isinstance(found, ClaimCompleted), sent)
    return None


def with_earlier_outcome(problem: RefusedError, earlier: EarlierAction) -> RefusedError:
    """Add to the refusal of a token that is no longer valid what this action did while the token was valid."""
    how = "has ended before" if earlier.has_ended else "was begun before, and has no recorded end yet"
    sent = f"{_count_requests(earlier.sent)} sent" if earlier.sent else "nothing was sent"
    warning = "; do not ask for it again" if earlier.sent else ""
    what = f"{problem.what}; this action {how}: {sent}{warning}"
    return RefusedError(
        problem.reason, what, where=problem.where, next_step="Ask with a valid token of the same agent for its result."
    )


def with_sent_count(problem: RemitError, sent: int) -> RemitError:
    """Add to a problem the requests that were sent before it. A denied second request does not undo the first one."""
    if not sent or problem.reason is Reason.FATE_UNKNOWN:
        return problem
    about_request = f"This request was not sent, but {_count_requests(sent, 'before it')} sent"
    before = about_request if isinstance(problem, RefusedError) else f"{_count_requests(sent)} sent"
    next_step = (
        f"{problem.next_step.replace(ASK_AGAIN, '').strip()} {before}: look at the site, and do not repeat the action."
    )
    what = problem.what.removeprefix(f"{NOT_SENT}: ")
    return type(problem)(problem.reason, what, where=problem.where, next_step=next_step.strip())


def with_late_requests(
    result: ActionResult, requests: Sequence[RequestFate], pending: Sequence[Approval]
) -> ActionResult:
    """Return the recorded result of an action with the later requests of its page: those sent, and those that wait.

    The recorded result and its signature stay unchanged. This result is for a caller that asks again.
    """
    sent = sum(request.state != "NOT_SENT" for request in requests)
    output = result.output
    if output is not None:
        entries: list[Any] = [dict(held) for held in _dicts(output.get("held"))]
        by_id = {held.get("request_id"): held for held in entries}
        for request in requests:
            entry = by_id.get(request.request_id) or _late_entry(result.action_id, request.request_id)
            if request.request_id not in by_id:
                entries.append(entry)
            if entry["state"] == "waiting":
                method, _, url = request.what.partition(" ")
                entry["method"], entry["url"] = (entry["method"], entry["url"]) if entry["url"] else (method, url)
                entry["approval_id"], entry["approved_by"] = request.approval_id, request.approved_by
                entry["state"], entry["status"] = _STATES.get(request.state, request.state.lower()), request.status
        named = {held.get("approval_id") for held in entries}
        for approval in pending:
            if approval.approval_id not in named and isinstance(approval.preview, HTTPPreview):
                entry = _late_entry(result.action_id, approval.approval_id)
                entry |= {"method": approval.preview.method, "url": approval.preview.url}
                entries.append(entry | {"approval_id": approval.approval_id})
        output = {**output, "held": entries}
    return result.model_copy(update={"sent": max(result.sent, sent), "output": output})


_STATES: Final = {"ANSWERED": "answered", "SENT": "answered", "UNKNOWN": Reason.FATE_UNKNOWN.value}


def _late_entry(action_id: str, request_id: str) -> dict[str, Any]:
    """Return an entry for `held` of an output. The preview of the request says how late it came."""
    empty = dict.fromkeys(("method", "approval_id", "approved_by", "reason", "status", "seconds_after"))
    late = {"request_id": request_id, "url": "", "by_itself": False, "action_id": action_id, "state": "waiting"}
    return {**empty, **late}


def _dicts(found: object) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _count_requests(sent: int, which: str = "") -> str:
    """Return `1 request was` or `2 before it were`."""
    return f"{sent} {which or ('request' if sent == 1 else 'requests')} {'was' if sent == 1 else 'were'}"
