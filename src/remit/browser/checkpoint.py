"""The records of browser operations: sentences for people, checkpoints for recovery, and the audit record.

No record holds a typed value, or an address with its secrets, because a checkpoint stays in the database permanently.
Values that the agent itself sent, such as an action's target, are masked by names and patterns alone. They are not
masked for equal typed values, because the agent chooses what it types.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from remit.browser.model.masking import cut, mask_url
from remit.browser.typed_secrets import TypedSecrets
from remit.contracts.base import Contract, Count, Digest, Identifier, ShortText, Text, Uuid
from remit.contracts.browser.browser import Action, ActionResult, AuditRecord
from remit.core.canonical import canonical_bytes
from remit.core.ids import DEFAULT_TENANT, render_time
from remit.execution.checkpoint_text import read_checkpoint
from remit.ledger.entry import NewEntry
from remit.masking import mask_text

UNKNOWN: Final = "unknown"
"""The agent in a record when no token could be verified. Remit trusts no unsigned claim, not even for a record."""


@dataclass
class AuditData:
    """Data for the audit record, collected while an action runs."""

    agent_id: str = UNKNOWN
    jti: str = UNKNOWN
    before: str | None = None
    after: str | None = None
    turned_away: list[dict[str, str]] = field(default_factory=list)
    secrets: TypedSecrets = field(default_factory=TypedSecrets)
    """The typed secrets of the action's session, once that is known."""
    sent: int = 0
    """The number of requests that change something and were sent or may have been sent."""


@dataclass(frozen=True, slots=True)
class ActionCheckpoint:
    """The checkpoint of an action, masked."""

    action: Action
    digest: str
    """The digest of the action as the agent sent it."""
    agent_id: str
    jti: str
    before: str | None


@dataclass(frozen=True, slots=True)
class RequestCheckpoint:
    """The checkpoint of a held request. The approval has the content; the digests here identify it."""

    request_id: str
    digest: str
    request_digest: str
    action_id: str
    agent_id: str
    jti: str
    approval_id: str
    what: str


class RequestOutcome(Contract):
    """The outcome of a held request."""

    request_id: Identifier
    action_id: Identifier
    request_digest: Digest
    state: Literal["ANSWERED", "SENT", "NOT_SENT", "UNKNOWN", "REFUSED"]
    status: Count | None = None
    approval_id: Uuid | None = None
    approved_by: Identifier | None = None
    what: ShortText | None = None
    """The method and the address of the request, masked."""
    reason: ShortText | None = None
    """The reason code of a problem. `problem` is its message."""
    problem: Text | None = None


def mask_action(action: Action, secrets: TypedSecrets) -> Action:
    """Return the action without the typed value and without secrets in its address or selector."""
    return action.model_copy(
        update={
            "target": mask_url(action.target)[:8_192],
            "selector": None if action.selector is None else secrets.mask_selector(action.selector)[:1_000],
            "value": None if action.value is None else "********",
        }
    )


def render_action_checkpoint(checkpoint: ActionCheckpoint) -> str:
    tree = {
        "action": checkpoint.action.tree(),
        "digest": checkpoint.digest,
        "agent_id": checkpoint.agent_id,
        "jti": checkpoint.jti,
        "before": checkpoint.before,
    }
    return canonical_bytes(tree).decode()


def parse_action_checkpoint(text: str) -> ActionCheckpoint:
    return read_checkpoint(
        text,
        lambda tree: ActionCheckpoint(
            Action.from_tree(tree["action"]), tree["digest"], tree["agent_id"], tree["jti"], tree["before"]
        ),
        "browser action",
    )


def render_request_checkpoint(checkpoint: RequestCheckpoint) -> str:
    return canonical_bytes({name: getattr(checkpoint, name) for name in RequestCheckpoint.__slots__}).decode()


def parse_request_checkpoint(text: str) -> RequestCheckpoint:
    return read_checkpoint(text, lambda tree: RequestCheckpoint(**tree), "held request")


def render_request(method: str, url: str, secrets: TypedSecrets) -> str:
    """`POST https://shop.example/pay`, masked."""
    return cut(f"{method or 'message to'} {secrets.mask_url(url)}", 500)


def render_element(description: Any, secrets: TypedSecrets | None = None) -> str:
    """Return `the button 'Pay now'`, from the browser's own description, masked. Give `secrets` if the text is for a
    record, because a page can put a typed value into a name.
    """
    role = cut(mask_text(description.role or description.tag), 40)
    name = cut(mask_text(description.name) if secrets is None else secrets.text(description.name), 120)
    return f"the {role} {name!r}" if name else f"a {role} without a name"


def render_summary(action: Action, page_url: str, description: Any, secrets: TypedSecrets) -> str:
    """Return one masked sentence: what the action does, where, and to which form it leads."""
    verb = {
        "navigate": "Go to",
        "click": "Click",
        "type": "Type into",
        "screenshot": "Take a picture of",
        "snapshot": "Read",
        "submit": "Submit",
        "purchase": "Buy with",
    }[action.type]
    if action.type == "navigate":
        return f"{verb} {mask_url(action.target)}"
    what = render_element(description, secrets) if description is not None else "the page"
    form = description.form if description is not None and (description.submits or action.type != "click") else None
    form_target = f"{cut(form.method.upper(), 10)} {secrets.mask_url(form.action)}" if form is not None else ""
    if form_target:
        form_target = f" ({form_target})" if description.tag == "form" else f" of the form {form_target}"
    price = f" for {action.amount.value:.2f} {action.amount.currency}" if action.amount is not None else ""
    return f"{verb} {what}{form_target}{price}, at {secrets.mask_url(page_url)}"


def build_late_entry(
    action: Action, outcome: RequestOutcome, seconds_after: float, sent: int, agent_id: str
) -> NewEntry:
    """Build the audit record of a request that came after its action had ended, so that their `sent` counts agree."""
    payload = {
        "action_id": action.action_id,
        "request_id": outcome.request_id,
        "approval_id": outcome.approval_id,
        "state": outcome.state,
        "status": outcome.status,
        "seconds_after": round(seconds_after, 1),
        "sent": sent,
    }
    return NewEntry(
        DEFAULT_TENANT,
        "browser.late",
        action.action_id,
        payload,
        capability_id=f"browser.{action.type}",
        actor=agent_id,
    )


def build_audit_entry(action: Action, audit: AuditData, result: ActionResult, now: datetime) -> NewEntry:
    """Build the audit record of one action, allowed or not."""
    record = AuditRecord(
        timestamp=render_time(now),
        agentId=audit.agent_id,
        action=action.type,
        target=mask_url(action.target)[:8_192],
        tokenJti=audit.jti,
        success=result.success,
        contentHashBefore=result.content_hash_before,
        contentHashAfter=result.content_hash_after,
    )
    details: dict[str, Any] = {"action_id": action.action_id, "sent": result.sent}
    if result.error is not None:
        details["code"] = result.error.code
    if audit.turned_away:
        details["turned_away"] = audit.turned_away
    return NewEntry(
        DEFAULT_TENANT,
        "browser.action",
        action.action_id,
        {**record.tree(), **details},
        capability_id=f"browser.{action.type}",
        actor=audit.agent_id,
    )
