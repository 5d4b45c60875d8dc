"""What the ledger's entries about the browser say, for people: which request, to which host, allowed by whom.

Nothing is cut but what could be endless: whoever asks later who allowed what has to be able to read it here.
"""

from typing import Any, Final

from remit.ledger.entry import Entry

LONGEST: Final = 500
_STATES: Final = {
    "SENT": "sent",
    "NOT_SENT": "approved, and not sent",
    "UNKNOWN": "unknown: it may have been sent",
    "REFUSED": "not sent",
}


def render_browser_meaning(entry: Entry, payload: dict[str, Any]) -> str:
    """Of tokens, questions to a person, actions and held requests; empty for any other entry."""
    subject, _, event = entry.kind.rpartition(".")
    match subject:
        case "token":
            said = _token(entry, event, payload)
        case "approval":
            said = _question(entry, event, payload)
        case "browser":
            said = _action(entry, event, payload)
        case "browser_request":
            said = _request(event, payload)
        case _:
            return ""
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}..."


def _token(entry: Entry, event: str, payload: dict[str, Any]) -> str:
    if event == "issued":
        until = _text(payload.get("expires_at"))[:19]
        return _joined(f"for {payload.get('sub')}", f"until {until}Z" if until else "")
    return _joined(f"by {entry.actor}", payload.get("reason")) if event == "revoked" else ""


def _question(entry: Entry, event: str, payload: dict[str, Any]) -> str:
    name = f"question {payload.get('approval_id')}"
    match event:
        case "requested":
            thing = _joined(payload.get("method"), payload.get("url"), by=" ")
            until = _text(payload.get("expires_at"))[:19]
            return _joined(thing, _text(payload.get("effect")).rstrip("."), f"until {until}Z" if until else "", name)
        case "approved" | "denied":
            return _joined(f"by {entry.actor}", payload.get("reason"), name)
        case "voided" | "expired" | "used":
            return _joined(payload.get("reason"), name)
        case _:
            return ""


def _action(entry: Entry, event: str, payload: dict[str, Any]) -> str:
    match event:
        case "intent":
            return _joined(_text(payload.get("preview")).rstrip("."), payload.get("consent"))
        case "outcome":
            return _ended(payload.get("outcome"))
        case "refused":
            return _problem(payload)
        case "retried":
            why = payload.get("why")
            return _joined(f"try {payload.get('retry')}", _problem(why) if isinstance(why, dict) else "")
        case "action":
            word = "done" if payload.get("success") else payload.get("code")
            thing = _joined(payload.get("action"), payload.get("target"), by=" ")
            return _joined(thing, word, f"by agent {entry.actor}", _turned_away(payload.get("turned_away")))
        case _:
            return ""


def _request(event: str, payload: dict[str, Any]) -> str:
    match event:
        case "intent":
            return _joined(_text(payload.get("preview")).rstrip("."), payload.get("consent"))
        case "outcome":
            outcome = payload.get("outcome")
            return _sent(outcome) if isinstance(outcome, dict) else ""
        case "refused":
            return _problem(payload)
        case _:
            return ""


def _sent(outcome: dict[str, Any]) -> str:
    state = outcome.get("state")
    word = f"answered {outcome.get('status')}" if state == "ANSWERED" else _STATES.get(_text(state), _text(state))
    by = outcome.get("approved_by")
    approved = f"approved by {by}" if by else ""
    return _joined(outcome.get("what"), word, approved, _text(outcome.get("problem")))


def _ended(outcome: Any) -> str:
    if not isinstance(outcome, dict):
        return ""
    if outcome.get("success"):
        output = outcome.get("output")
        return _joined("done", f"at {output['url']}" if isinstance(output, dict) and output.get("url") else "")
    error = outcome.get("error")
    code = error.get("code") if isinstance(error, dict) else ""
    message = error.get("message") if isinstance(error, dict) else ""
    return _joined(code, message or outcome.get("reason"), by=": ")


def _turned_away(requests: Any) -> str:
    if not isinstance(requests, list) or not requests or not isinstance(requests[0], dict):
        return ""
    first = _joined(requests[0].get("method"), requests[0].get("url"), by=" ")
    more = f", and {len(requests) - 1} more" if len(requests) > 1 else ""
    return f"turned away: {first} ({requests[0].get('why')}){more}"


def _problem(problem: dict[str, Any]) -> str:
    return _joined(_joined(problem.get("reason"), problem.get("what"), by=": "), problem.get("next_step"), by="; ")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _joined(*parts: Any, by: str = ", ") -> str:
    return by.join(part for part in parts if isinstance(part, str) and part)
