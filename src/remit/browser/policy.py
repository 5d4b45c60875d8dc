"""The decision whether a token allows an action: capability, host and amount, each with its reason. Pure.

It also has the answers of the browser operation to errors. `browser_error` turns any error of Remit into one of the
nine errors of that operation, and `browser_reason` makes the sentence beside it.
"""

import shlex
from collections.abc import Callable
from decimal import Decimal
from typing import Final, get_args

from remit.authority.capability_token import Token
from remit.browser.domains import Target, matches, parse_target
from remit.contracts.browser.browser import Action, ActionType, Amount, TokenConstraints
from remit.contracts.browser.errors import (
    AMOUNT_EXCEEDS_LIMIT,
    DOMAIN_NOT_ALLOWED,
    AnyExecutorError,
    ApprovalDenied,
    ApprovalTimeout,
    Capability,
    CapabilityMissing,
    ConstraintViolated,
    ElementNotFound,
    KernelError,
    TokenExpired,
    TokenInvalid,
    TokenRevoked,
)
from remit.core.errors import Reason, RefusedError, RemitError
from remit.execution.decision import Denial, PolicyDecision
from remit.masking import mask_text

CAPABILITY_OF: Final[dict[ActionType, Capability]] = {
    "navigate": "browser.navigate",
    "click": "browser.click",
    "type": "browser.type",
    "screenshot": "browser.screenshot",
    "snapshot": "browser.snapshot",
    "submit": "browser.submit",
    "purchase": "browser.purchase",
}
_CAPABILITIES: Final = frozenset(get_args(Capability))
_CONSTRAINT: Final = "constraints."
"""The prefix of `where` for a broken constraint; the name of the constraint follows."""
_SHORT: Final = 1_000
_WITHOUT_MESSAGE: Final = frozenset({Reason.CAPABILITY_MISSING, Reason.CONSTRAINT_VIOLATED, Reason.ELEMENT_MISSING})


def decide_browser(token: Token, action: Action, currency: str) -> PolicyDecision:
    """Decide whether this token allows this action. `currency` is the currency of a limit that is a bare number."""
    granted: list[str] = []
    denials: list[Denial] = []
    rules: tuple[Callable[[], str], ...] = (
        lambda: require_capability(token, action.type),
        lambda: require_domain(token, action.target)[1],
        lambda: require_amount(token, action, currency),
    )
    for rule in rules:
        try:
            if reason := rule():
                granted.append(reason)
        except RefusedError as problem:
            denials.append(Denial(problem.reason, problem.what, problem.where, problem.next_step))
    return PolicyDecision(tuple(granted), tuple(denials))


def require_capability(token: Token, kind: ActionType) -> str:
    needed = CAPABILITY_OF[kind]
    if needed not in token.caps:
        raise RefusedError(
            Reason.CAPABILITY_MISSING,
            f"the token does not have the capability {needed}",
            where=needed,
            next_step=f"Have one issued with it: remit token issue --sub {shlex.quote(token.agent_id)} --cap {kind}"
            " --domain HOST",
        )
    return f"token {token.jti} has {needed}"


def require_domain(token: Token, url: str) -> tuple[Target, str]:
    """Return the target of the URL and the rule that allows it. Without `domains` no host is allowed."""
    target = parse_target(url)
    require_host(token.constraints, target.host)
    return target, f"{target.host} is among the token's domains"


def require_host(constraints: TokenConstraints, host: str) -> None:
    """Refuse if the token does not allow this host. For callers that have a host and no URL, such as the proxy."""
    if matches(host, constraints.domains or ()):
        return
    allowed = ", ".join(constraints.domains or ()) or "no host at all"
    raise RefusedError(
        Reason.CONSTRAINT_VIOLATED,
        DOMAIN_NOT_ALLOWED,
        where=f"{_CONSTRAINT}domains",
        next_step=(
            f"the token allows {allowed}, and not {host or 'a page without a host'}. To allow it, have a token issued"
            " for it: remit token issue --sub AGENT --cap CAPABILITY --domain HOST"
        ),
    )


def require_amount(token: Token, action: Action, currency: str) -> str:
    """Refuse a purchase whose declared amount is above the limit. Other actions pass with an empty reason."""
    if action.type != "purchase" or action.amount is None:
        return ""
    return require_within_limit(token.constraints, action.amount, currency)


def require_within_limit(constraints: TokenConstraints, amount: Amount, currency: str) -> str:
    """Refuse an amount above the limit, for example one that was found in a request. Compares exact decimals."""
    limit = purchase_limit(constraints, currency)
    if limit is None:
        raise limit_exceeded_error(
            f"{render_money(amount)} was declared; the token sets no limit for purchases, so it allows none. Have a"
            " token issued with a limit: remit token issue --sub AGENT --cap purchase --domain HOST --max-purchase"
            " AMOUNT"
        )
    if amount.currency != limit.currency:
        raise limit_exceeded_error(
            f"{render_money(amount)} was declared; the token allows {render_money(limit)} and no other currency."
        )
    if to_decimal(amount) > to_decimal(limit):
        raise limit_exceeded_error(f"{render_money(amount)} was declared; the token allows {render_money(limit)}.")
    return f"{to_decimal(amount)} {amount.currency} is within the token's limit"


def purchase_limit(constraints: TokenConstraints, currency: str) -> Amount | None:
    limit = constraints.max_purchase
    return limit if limit is None or isinstance(limit, Amount) else Amount(value=limit, currency=currency)


def render_money(amount: Amount) -> str:
    """Return `79.90 EUR`, with more decimals if the value has more."""
    value = to_decimal(amount)
    shown = f"{value:.2f}" if value == round(value, 2) else f"{value:f}"
    return f"{shown} {amount.currency}"


def to_decimal(amount: Amount) -> Decimal:
    """Return the number as it was written: its shortest decimal notation, not the binary fraction."""
    return Decimal(repr(amount.value))


def require_caller(token: Token, caller: str | None) -> None:
    """Refuse if the caller is known and the token was issued to another agent."""
    if caller is not None and caller != token.agent_id:
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            "the token was issued to another agent",
            where="token, sub",
            next_step="Have a token issued to this agent: remit token issue"
            f" --sub {shlex.quote(caller)} --cap CAPABILITY",
        )


# --- the nine errors of the operation ---------------------------------------------------------------------------------

_MESSAGES: Final[dict[Reason, Callable[[str], AnyExecutorError]]] = {
    **dict.fromkeys(
        (
            Reason.AUTHORITY_MALFORMED,
            Reason.SIGNATURE_INVALID,
            Reason.KEY_UNKNOWN,
            Reason.KEY_RETIRED,
            Reason.BINDING_MISMATCH,
            Reason.NOT_YET_VALID,
        ),
        lambda message: TokenInvalid(code="TOKEN_INVALID", message=message),
    ),
    Reason.EXPIRED: lambda message: TokenExpired(code="TOKEN_EXPIRED", message=message),
    Reason.REVOKED: lambda message: TokenRevoked(code="TOKEN_REVOKED", message=message),
    Reason.APPROVAL_DENIED: lambda message: ApprovalDenied(code="APPROVAL_DENIED", message=message),
    Reason.APPROVAL_TIMEOUT: lambda message: ApprovalTimeout(code="APPROVAL_TIMEOUT", message=message),
}


def browser_error(problem: RemitError, *, selector: str = "") -> AnyExecutorError:
    """Return one of the nine errors with its payload. A problem without an error of its own becomes a KERNEL_ERROR.

    The problem's `where` names the missing capability or the broken constraint. `selector` is what the action named,
    for an element that is missing.
    """
    where = problem.where
    if problem.reason is Reason.CAPABILITY_MISSING and where in _CAPABILITIES:
        return CapabilityMissing.from_tree({"code": "CAPABILITY_MISSING", "required": where})
    if problem.reason is Reason.CONSTRAINT_VIOLATED:
        value = where.removeprefix(_CONSTRAINT) or problem.what
        return ConstraintViolated(code="CONSTRAINT_VIOLATED", constraint=value[:_SHORT])
    if problem.reason is Reason.ELEMENT_MISSING:
        value = mask_text(selector) or where or problem.what
        return ElementNotFound(code="ELEMENT_NOT_FOUND", selector=value[:_SHORT])
    make = _MESSAGES.get(problem.reason)
    message = str(problem)
    return make(message) if make is not None else KernelError(code="KERNEL_ERROR", message=message)


def browser_reason(problem: RemitError) -> str:
    """Return the specified words if there are any, else what was wrong, and then what no other field of the error says.

    The errors of elements, capabilities and constraints have no message, so the next step is in this text.
    """
    if problem.reason not in _WITHOUT_MESSAGE:
        return problem.what[:_SHORT]
    specified_reasons = {
        f"{_CONSTRAINT}domains": DOMAIN_NOT_ALLOWED,
        f"{_CONSTRAINT}max_purchase": AMOUNT_EXCEEDS_LIMIT,
    }
    specified = specified_reasons.get(problem.where)
    rest = ". ".join(part for part in (problem.what, problem.next_step) if part and part != specified)
    return ": ".join(part for part in (specified, rest) if part)[:_SHORT]


def limit_exceeded_error(why: str) -> RefusedError:
    """Build the refusal of an amount. `why` names the amount, its place, and the allowed amount."""
    return RefusedError(
        Reason.CONSTRAINT_VIOLATED, AMOUNT_EXCEEDS_LIMIT, where=f"{_CONSTRAINT}max_purchase", next_step=why
    )
