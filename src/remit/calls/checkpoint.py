"""The documents of a call: the preview for a person, and the checkpoint for recovery.

The checkpoint holds the exact arguments, because undo needs them, and stays in the workspace's own database. The
previews for people and the ledger entries are masked.
"""

import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from pydantic import JsonValue, TypeAdapter, ValidationError

from remit.authority.capability_token import Token
from remit.calls.function import GovernedFunction, Verdict
from remit.calls.result_values import plain_value
from remit.contracts.base import MAX_TEXT, Contract, JsonData
from remit.contracts.browser.browser import Approval
from remit.contracts.calls.call import CallArguments, CallEffect, CallPreview, CallResult
from remit.core.canonical import canonical_bytes
from remit.core.errors import MAX_MASKED, Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.core.text import printable
from remit.execution.checkpoint_text import read_checkpoint
from remit.execution.engine import Preview
from remit.ledger.entry import NewEntry
from remit.masking import mask_json, mask_shaped, mask_shown
from remit.parsing import parse_json
from remit.store.connection import Connection

MOST_BYTES: Final = 256 << 10
"""The limit of a returned value, and of the data for undo."""
UNKNOWN: Final = "unknown"
"""The agent in a record whose token could not be verified. Unsigned data is not accepted, not even for a record."""
HIDDEN: Final = "********"
_JSON: Final[TypeAdapter[JsonValue]] = TypeAdapter(JsonData)


class CallTokens(Protocol):
    """The tokens of the workspace: `remit.identity.tokens.Tokens`."""

    def verify(self, text: str, now: datetime | None = None) -> Token: ...
    def require_still_valid(self, connection: Connection, token: Token, now: datetime) -> None: ...


@dataclass
class CallAuditData:
    """Audit data that is collected while a call runs. The agent is unknown until the token is verified."""

    token: Token | None = None
    agent_id: str = UNKNOWN
    jti: str = UNKNOWN
    verdict: Verdict | None = None


@dataclass(frozen=True)
class CallRequest:
    """An unverified call. `function` is None only if a checkpoint names a function that this program does not have."""

    name: str
    call_id: str
    arguments: Mapping[str, Any]
    """The arguments as JSON. `model` holds the same arguments as a closed model."""
    model: CallArguments | None
    function: GovernedFunction | None
    token: str = field(repr=False)
    digest: str
    audit: CallAuditData = field(default_factory=CallAuditData, compare=False)


@dataclass(frozen=True, slots=True)
class GrantedCall:
    """A call whose token was verified."""

    request: CallRequest
    function: GovernedFunction
    model: CallArguments
    token: Token
    approvals: list[Approval] = field(default_factory=list, compare=False)


@dataclass(frozen=True, slots=True)
class ShownCall(Preview):
    """The preview of a call, with the document for the approver."""

    shown: CallPreview


@dataclass
class CallFate:
    """The state of a call's effect, `unknown` until it is known."""

    effect: CallEffect = "unknown"


@dataclass(frozen=True)
class CallCheckpoint:
    """A call with the data of its checkpoint."""

    request: CallRequest
    before: Any
    fate: CallFate = field(default_factory=CallFate, compare=False)


@dataclass(frozen=True, slots=True)
class Returned:
    """The value that a function returned, as JSON."""

    value: Any


@dataclass(frozen=True, slots=True)
class InterruptedCall:
    """A call whose process died. It is only reported."""

    problem: RemitError


def render_call_checkpoint(request: CallRequest, before: Any) -> str:
    tree = {
        "function": request.name,
        "call_id": request.call_id,
        "arguments": request.arguments,
        "digest": request.digest,
        "agent_id": request.audit.agent_id,
        "jti": request.audit.jti,
        "before": before,
    }
    return canonical_bytes(tree).decode()


def parse_call_checkpoint(text: str, functions: Mapping[str, GovernedFunction]) -> CallCheckpoint:
    """Parse a checkpoint. If this program does not have its function, the call can only be closed."""

    def read(tree: Any) -> CallCheckpoint:
        function = functions.get(tree["function"])
        model = None if function is None else function.arguments.from_tree(tree["arguments"])
        name, call_id, arguments = tree["function"], tree["call_id"], tree["arguments"]
        audit = CallAuditData(None, tree["agent_id"], tree["jti"])
        request = CallRequest(name, call_id, arguments, model, function, "", tree["digest"], audit)
        return CallCheckpoint(request, tree["before"])

    return read_checkpoint(text, read, "call")


def render_call(function: GovernedFunction, arguments: Mapping[str, Any], sentence: str) -> CallPreview:
    """Make the preview for a person. Refuses a call that is too long to be shown in full."""
    shown: dict[str, str] = {}
    for name, value in arguments.items():
        masked = _masked(function, name, value)
        text = masked if isinstance(masked, str) else json.dumps(masked, ensure_ascii=False)
        if len(text) > MAX_TEXT:
            raise RefusedError(
                Reason.TOO_LARGE,
                f"an argument of more than {MAX_TEXT:,} characters cannot be shown to a person, so it is not called",
                where=f"function {function.name}, {name}",
                next_step="Shorten the argument.",
            )
        shown[name] = text
    masked_sentence = _mask_sentence(function, arguments, sentence) if sentence else ""
    effect = masked_sentence or f"Calls {function.name}. {function.description}".strip()
    return CallPreview(
        function=function.name,
        arguments=shown,
        estimatedEffect=effect[:4_000],
        risk=function.risk,
        reversible=function.is_harmless,
        wayBack=function.undo_description,
    )


def _masked(function: GovernedFunction, name: str, value: Any) -> Any:
    return HIDDEN if name in function.private else mask_json(value, name=name, mask=mask_shown, whole_labels=True)


def _mask_sentence(function: GovernedFunction, arguments: Mapping[str, Any], sentence: str) -> str:
    """Mask the program's own sentence about the call. Each argument in it appears as it is shown.

    Beyond that only text that looks like a secret is masked, so no word in an argument can hide the program's text.
    """
    texts = dict(_changed_texts(arguments, {name: _masked(function, name, value) for name, value in arguments.items()}))
    if texts:
        longest_first = sorted(texts, key=len, reverse=True)
        whole = rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"
        sentence = re.sub(whole, lambda found: texts[found[0]], sentence)
    return printable(mask_shaped(sentence[:MAX_MASKED]))


def _changed_texts(plain: Any, masked: Any) -> Iterator[tuple[str, str]]:
    """Yield each masked text and number with its mask. A value that is hidden as a whole is hidden in all its parts."""
    if isinstance(plain, Mapping):
        values = list(plain.values())
        masks = list(masked.values()) if isinstance(masked, Mapping) else [masked] * len(values)
    elif isinstance(plain, list):
        values, masks = plain, masked if isinstance(masked, list) else [masked] * len(plain)
    else:
        if plain not in ("", None) and not isinstance(plain, bool) and plain != masked:
            yield str(plain), str(masked)
        return
    for value, mask in zip(values, masks, strict=True):
        yield from _changed_texts(value, mask)


def render_summary(shown: CallPreview) -> str:
    """Render the call as one line for the ledger."""
    arguments = ", ".join(f"{name}={value}" for name, value in shown.arguments.items())
    return f"{shown.function}({arguments}): {shown.estimated_effect}"[:2_000]  # each was masked when it was shown


def audit_event(request: CallRequest, result: CallResult) -> NewEntry:
    """Make the audit entry of a call: agent, function and outcome. Every call has one, allowed or not."""
    payload = {
        "call_id": request.call_id,
        "function": request.name,
        "agent_id": request.audit.agent_id,
        "jti": request.audit.jti,
        "status": result.status,
        "effect": result.effect,
        "code": result.error.code if result.error is not None else None,
    }
    capability, who = f"call.{request.name}", request.audit.agent_id
    return NewEntry(DEFAULT_TENANT, "call.audit", request.call_id, payload, capability_id=capability, actor=who)


def require_json(value: Any, what: str, where: str) -> Any:
    """Return the value as JSON of a bounded size. The refusal of another value names only its type, not its content."""
    tree, closed, size = (value.tree() if isinstance(value, Contract) else value), None, -1
    with contextlib.suppress(ValidationError, RemitError, ValueError, RecursionError):
        closed = _JSON.validate_python(tree, strict=True)
        raw = canonical_bytes(closed)
        size = len(raw)
        if size <= MOST_BYTES:  # parsed as it will be read again: a signed value that cannot be parsed would be lost
            size = -1
            parse_json(b'{"value":%s}' % raw, CallResult.bounds)
            size = len(raw)
    if not 0 <= size <= MOST_BYTES:
        raise RefusedError(
            Reason.MALFORMED if size < 0 else Reason.TOO_LARGE,
            f"{what} is {type(value).__name__}, not JSON of at most {MOST_BYTES:,} bytes that Remit can read",
            where=where,
            next_step="Return plain values: text, numbers, lists, dictionaries; not too deep, not too many.",
        )
    return closed


def require_result(value: Any, where: str) -> Any:
    """Return the value of a function with ordinary types converted to JSON. Refuses a value that cannot be stored."""
    plain = value
    with contextlib.suppress(Exception):  # the code of a model may raise anything; then the plain value is checked
        plain = plain_value(value)
    try:
        return require_json(plain, "what it returned", where)
    except RefusedError as problem:
        what = f"what it returned is {type(value).__name__}, and Remit stores JSON of at most {MOST_BYTES:,} bytes"
        raise RefusedError(problem.reason, what, where=where, next_step=problem.next_step) from None


def is_deferred(value: Any) -> bool:
    """Whether a returned value, or a part of it, has yet to run. It is not run here, so its effect is not known.

    For example, `map(send, customers)` has sent nothing yet.
    """
    if isinstance(value, dict):
        value = tuple(value.values())
    parts = value if isinstance(value, list | tuple) else ()
    return any(isinstance(each, Iterator | AsyncIterator | Awaitable) for each in (value, *parts))
