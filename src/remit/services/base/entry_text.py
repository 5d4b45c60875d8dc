"""Summaries of ledger entries for people, in a few words. `--json` shows entries whole.

A summary of an entry about the browser names the request, the host and the approver. It shortens only texts of
unlimited length, because a reader must be able to see here what was allowed, and by whom.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from remit.core.text import counted, shortened
from remit.ledger.entry import Entry

MAX_LENGTH: Final = 500
_STATES: Final = {
    "SENT": "sent",
    "NOT_SENT": "approved, and not sent",
    "UNKNOWN": "unknown: it may have been sent",
    "REFUSED": "not sent",
}


def render_browser_meaning(entry: Entry, payload: dict[str, Any]) -> str:
    """Summarise an entry about a token, an approval request, an action or a held request. Empty for other entries."""
    subject, _, event = entry.kind.rpartition(".")
    match subject:
        case "token":
            text = _render_token(entry, event, payload)
        case "approval":
            text = _render_approval(entry, event, payload)
        case "browser":
            text = _render_action(entry, event, payload)
        case "browser_request":
            text = _render_request(event, payload)
        case _:
            return ""
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}..."


def _render_token(entry: Entry, event: str, payload: dict[str, Any]) -> str:
    if event == "issued":
        until = _text(payload.get("expires_at"))[:19]
        return _join(f"for {payload.get('sub')}", f"until {until}Z" if until else "")
    return _join(f"by {entry.actor}", payload.get("reason")) if event == "revoked" else ""


def _render_approval(entry: Entry, event: str, payload: dict[str, Any]) -> str:
    name = f"approval request {payload.get('approval_id')}"
    match event:
        case "requested":
            subject = _join(payload.get("method"), payload.get("url"), by=" ")
            until = _text(payload.get("expires_at"))[:19]
            return _join(subject, _text(payload.get("effect")).rstrip("."), f"until {until}Z" if until else "", name)
        case "approved" | "denied":
            return _join(f"by {entry.actor}", payload.get("reason"), name)
        case "voided" | "expired" | "used":
            return _join(payload.get("reason"), name)
        case _:
            return ""


def _render_action(entry: Entry, event: str, payload: dict[str, Any]) -> str:
    match event:
        case "intent":
            return _join(_text(payload.get("preview")).rstrip("."), payload.get("consent"))
        case "outcome":
            return _render_ended(payload.get("outcome"))
        case "refused":
            return _render_problem(payload)
        case "retried":
            why = payload.get("why")
            return _join(f"try {payload.get('retry')}", _render_problem(why) if isinstance(why, dict) else "")
        case "action":
            status = "done" if payload.get("success") else payload.get("code")
            subject = _join(payload.get("action"), payload.get("target"), by=" ")
            return _join(subject, status, f"by agent {entry.actor}", _render_blocked(payload.get("turned_away")))
        case _:
            return ""


def _render_request(event: str, payload: dict[str, Any]) -> str:
    match event:
        case "intent":
            return _join(_text(payload.get("preview")).rstrip("."), payload.get("consent"))
        case "outcome":
            outcome = payload.get("outcome")
            return _render_sent(outcome) if isinstance(outcome, dict) else ""
        case "refused":
            return _render_problem(payload)
        case _:
            return ""


def _render_sent(outcome: dict[str, Any]) -> str:
    state = outcome.get("state")
    status = f"answered {outcome.get('status')}" if state == "ANSWERED" else _STATES.get(_text(state), _text(state))
    by = outcome.get("approved_by")
    approved = f"approved by {by}" if by else ""
    return _join(outcome.get("what"), status, approved, _text(outcome.get("problem")))


def _render_ended(outcome: Any) -> str:
    if not isinstance(outcome, dict):
        return ""
    if outcome.get("success"):
        output = outcome.get("output")
        return _join("done", f"at {output['url']}" if isinstance(output, dict) and output.get("url") else "")
    error = outcome.get("error")
    code = error.get("code") if isinstance(error, dict) else ""
    message = error.get("message") if isinstance(error, dict) else ""
    return _join(code, message or outcome.get("reason"), by=": ")


def _render_blocked(requests: Any) -> str:
    if not isinstance(requests, list) or not requests or not isinstance(requests[0], dict):
        return ""
    first = _join(requests[0].get("method"), requests[0].get("url"), by=" ")
    more = f", and {len(requests) - 1} more" if len(requests) > 1 else ""
    return f"blocked: {first} ({requests[0].get('why')}){more}"


def _render_problem(problem: dict[str, Any]) -> str:
    return _join(_join(problem.get("reason"), problem.get("what"), by=": "), problem.get("next_step"), by="; ")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _join(*parts: Any, by: str = ", ") -> str:
    return by.join(part for part in parts if isinstance(part, str) and part)


REF_SHOWN: Final = 12
_SINGLE: Final = "step-1"
_WHOLE: Final = "goal"


def render_goal_meaning(kind: str, payload: Mapping[str, Any], actor: str | None) -> str:
    """Summarise an entry about a goal or a simulation. Empty for other entries."""
    if kind.startswith("simulation."):
        return _of_dispatch(kind, payload)
    match kind:
        case "agent.step" | "agent.preview":
            step = _several(payload.get("step_id"))
            what = payload.get("event") or "the preview beside the question"
            return _join(what, payload.get("reason_code"), payload.get("simulation_id"), step)
        case "agent.confirmation":
            token = payload.get("accepted_token")
            return _join(payload.get("verdict"), f"by “{token}”" if token else "", payload.get("language_tag"))
        case "agent.access":
            return _join(payload.get("verdict"), payload.get("access_action"), payload.get("user_id"))
        case "agent.approval":
            return _join("approved" if payload.get("approved") is True else "denied", f"by {actor}")
        case "agent.refused":
            return _join(payload.get("reason_code"), payload.get("what"), by=": ")
        case "catalogue.state":
            return _join(
                f"{payload.get('simulation_id')} {payload.get('version')}", payload.get("state"), f"by {actor}"
            )
        case _:
            return ""


def _several(step_id: Any) -> str:
    """Name the step of a goal with several steps. Empty for a goal with a single step."""
    if not isinstance(step_id, str) or step_id == _SINGLE:
        return ""
    return "the whole goal" if step_id == _WHOLE else step_id


def _of_dispatch(kind: str, payload: Mapping[str, Any]) -> str:
    outcome = payload.get("outcome")
    if kind == "simulation.outcome" and isinstance(outcome, dict):
        return str(outcome.get("reason_code", ""))
    return short_refs(str(payload.get("consent", ""))) if kind == "simulation.intent" else ""


def short_refs(text: str) -> str:
    """Shorten the digests in a text. `--json` has them whole."""
    parts = (part.rpartition("sha256:") for part in text.split(" "))
    return " ".join(f"{before}sha256:{name[:REF_SHOWN]}" if mark else name for before, mark, name in parts)


MAX_REFS: Final = 120
ID_SHOWN: Final = 9
TASK_SHOWN: Final = 40
HOW: Final = {"resumed": "continued after its process died", "noted": "data for a possible undo"}


def render_meaning(entry: Entry) -> str:
    """Summarise an entry by its kind. If the kind or form of the payload is unknown, return the shortened payload."""
    payload = read_payload(entry)
    meaning = ""
    if isinstance(payload, dict):
        if meaning := render_browser_meaning(entry, payload):
            return meaning
        meaning = render_goal_meaning(entry.kind, payload, entry.actor)
        meaning = meaning or _plan_meaning(entry.kind, payload) or _people_meaning(entry.kind, payload)
        meaning = meaning or _call_meaning(entry.kind, payload) or _clock_meaning(entry.kind, payload)
        meaning = meaning or _meaning(entry, payload)
    # JSON with spaces, so that a terminal can wrap it.
    rendered = meaning or (payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False))
    return shortened(rendered, MAX_REFS)


def read_payload(entry: Entry) -> Any:
    """Return the payload as a tree, or as text if it is not JSON because the database was changed."""
    try:
        return json.loads(entry.payload)
    except (ValueError, TypeError, RecursionError):
        return str(entry.payload)


def _meaning(entry: Entry, payload: dict[str, Any]) -> str:
    subject, _, event = entry.kind.rpartition(".")
    capability, other = entry.capability_id or "", _other_task(entry)
    if other:
        capability = f"{capability} {other}".lstrip()
    match event:
        case "intent" | "resumed" | "noted":
            return _join(capability, HOW.get(event) or _short_id(payload.get("consent")))
        case "outcome":
            return _join(_outcome(payload.get("outcome")), capability if other else "")
        case "refused":
            why = _join(payload.get("reason"), payload.get("what"), by=": ")
            return _join(capability if other else "", why)
        case "issued" if subject == "lease":
            return _join(capability, _until(payload))
        case "rotation_intended" | "rotated" | "revoked" | "trusted" if subject == "key":
            return _key_change(payload)
        case "created" if subject == "workspace":
            keys = payload.get("keys")
            return f"keys of {counted(len(keys), 'role')}" if isinstance(keys, dict) else ""
        case "moved" if subject == "workspace":
            return f"to {payload.get('to')}"
        case _:
            return ""


def _call_meaning(kind: str, payload: dict[str, Any]) -> str:
    """Summarise a call of a governed function by an agent, with its outcome."""
    if kind != "call.audit":
        return ""
    ended = f"{payload.get('status')}, effect {payload.get('effect')}"
    code = payload.get("code")
    return _join(payload.get("function"), f"{ended} ({code})" if code else ended, by=": ")


def _clock_meaning(kind: str, payload: dict[str, Any]) -> str:
    """Summarise an entry about the clock: a jump that was found, or its acceptance by a person."""
    if kind == "clock.accepted":
        return f"{payload.get('person')} accepted {payload.get('accepted_at')} after {payload.get('newest_at')}"
    if kind == "clock.jumped":
        return f"{payload.get('found')}: shows {payload.get('clock_at')}, expected {payload.get('expected_at')}"
    return ""


def _people_meaning(kind: str, payload: dict[str, Any]) -> str:
    """Summarise an entry about a person, a proposal, or the caller of a goal or task."""
    subject = kind.partition(".")[0]
    if subject == "person":
        on_behalf_of = f"for {payload.get('user')} of {payload.get('tenant')}" if payload.get("user") else ""
        return _join(payload.get("person"), payload.get("role"), on_behalf_of, payload.get("how"))
    if kind == "proposal.preview_failed":
        return _join(payload.get("plan_id"), payload.get("what"))
    if kind == "proposal.preview_deferred":
        return _join(payload.get("plan_id"), f"a person computes the preview: {payload.get('why')}")
    if subject == "proposal":
        return _join(payload.get("title") or payload.get("plan_id"), payload.get("reason"))
    if kind in {"goal.asked", "task.asked"}:
        token = _short_id(f"token {payload['jti']}") if payload.get("jti") else ""
        return _join(payload.get("by"), payload.get("role"), token)
    return ""


def _plan_meaning(kind: str, payload: dict[str, Any]) -> str:
    """Summarise an entry of a kind that only plans have. Empty for kinds that tasks have too."""
    match kind:
        case "plan.outcome" | "rollback.outcome":
            return _plan_outcome(payload)
        case "envelope.issued":
            return _join(payload.get("plan_id"), _until(payload))
        case "rollback.intent":
            return "a signed order to roll the plan back"
        case "envelope.cancelled":
            return "the envelope is void; a plan that runs with it is undone"
        case "plan.pruned":
            return _join(payload.get("folder"), "backups removed")
        case _:
            return _preview_meaning(kind, payload)


def _preview_meaning(kind: str, payload: dict[str, Any]) -> str:
    """Summarise an entry about a preview, or about a refusal. Both are counted beyond a rate."""
    match kind:
        case "plan.previewed":
            return _join(payload.get("plan_id"), "preview computed")
        case "plan.preview_read":
            count = len(payload["paths"]) if isinstance(payload.get("paths"), list) else 0
            files = f"of {counted(count, 'file')}" if count else ""
            return _join(payload.get("plan_id"), _join(payload.get("shown"), files, by=" "))
        case "request.refused":
            return f"{payload.get('operation')}: {payload.get('reason')}: {payload.get('what')}"
        case _:
            return _counted_meaning(payload) if kind.endswith(".counted") else ""


def _counted_meaning(payload: dict[str, Any]) -> str:
    reasons = payload.get("reasons")
    each = ", ".join(f"{name} {count}" for name, count in reasons.items()) if isinstance(reasons, dict) else ""
    return _join(f"{payload.get('operation')}: {payload.get('count')} counted since {payload.get('from')}", each)


def _until(payload: dict[str, Any]) -> str:
    until = payload.get("expires_at")
    return f"until {until[:19]}Z" if isinstance(until, str) else ""


def _other_task(entry: Entry) -> str:
    """Return `as restore-t-1` if the entry belongs to a task with another id than the correlation."""
    if not entry.task_id or entry.task_id == entry.correlation_id:
        return ""
    return f"as {shortened(entry.task_id, TASK_SHOWN)}"


def _outcome(outcome: Any) -> str:
    if not isinstance(outcome, dict):
        return ""
    error = outcome.get("error")
    code = error.get("error_code") if isinstance(error, dict) else None
    return _join(code or outcome.get("status"))


def _plan_outcome(payload: dict[str, Any]) -> str:
    """Summarise an outcome: the status, and the number of actions done (plan) or checkpoints as before (rollback).

    The words fit a rollback that found a file restored already, which the payload does not tell.
    """
    value = payload.get("status")
    status = value.get("status") if isinstance(value, dict) else value
    actions, restored = payload.get("actions"), payload.get("restored")
    done = ""
    if isinstance(actions, list):
        completed = sum(1 for row in actions if isinstance(row, list) and row[1:2] == ["done"])
        done = f"{completed:,} of {counted(len(actions), 'action')}"
    elif isinstance(restored, list):
        done = f"{counted(len(restored), 'checkpoint')} as before the plan"
    return _join(status, done)


def _key_change(payload: dict[str, Any]) -> str:
    old, new = payload.get("old_key_id"), payload.get("new_key_id")
    return _join(
        f"{payload.get('role')} key",
        f"old {shortened(old, ID_SHOWN)}" if isinstance(old, str) else "",
        f"new {shortened(new, ID_SHOWN)}" if isinstance(new, str) else "",
    )


def _short_id(consent: Any) -> str:
    """Return the consent with a shortened id, such as `lease 0123...`, which is enough to find it again."""
    if not isinstance(consent, str):
        return ""
    consent_kind, _, name = consent.partition(" ")
    return f"{consent_kind} {shortened(name, ID_SHOWN)}" if name else consent_kind
