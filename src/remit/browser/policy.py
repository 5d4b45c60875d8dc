"""May a token's holder do this in the browser? Pure: capability, host, amount, each with its reason.

And what the browser door answers: `browser_error` makes one of its nine errors of any of ours, `browser_reason` the
sentence beside it.
"""

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
"""Where a constraint was broken: this, and its name."""
_SHORT: Final = 1_000
_WITHOUT_MESSAGE: Final = frozenset({Reason.CAPABILITY_MISSING, Reason.CONSTRAINT_VIOLATED, Reason.ELEMENT_MISSING})


def decide_browser(token: Token, action: Action, currency: str) -> PolicyDecision:
    """Whether this token allows this action. `currency` is that of a limit that is a bare number."""
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
            next_step=f"Have one issued with it: remit token issue --cap {kind}",
        )
    return f"token {token.jti} has {needed}"


def require_domain(token: Token, url: str) -> tuple[Target, str]:
    """Where the URL leads, and which rule allows it. Without `domains` no place is allowed."""
    target = parse_target(url)
    require_host(token.constraints, target.host)
    return target, f"{target.host} is among the token's domains"


def require_host(constraints: TokenConstraints, host: str) -> None:
    """For whoever has a host and no URL, such as the proxy."""
    if matches(host, constraints.domains or ()):
        return
    allowed = ", ".join(constraints.domains or ()) or "no host at all"
    raise RefusedError(
        Reason.CONSTRAINT_VIOLATED,
        DOMAIN_NOT_ALLOWED,
        where=f"{_CONSTRAINT}domains",
        next_step=(
            f"the token allows {allowed}, and not {host or 'a page without a host'}. If that is meant, have one issued"
            " for it: remit token issue --domain"
        ),
    )


def require_amount(token: Token, action: Action, currency: str) -> str:
    """For a purchase: the declared amount is within the limit. Says nothing of other actions."""
    if action.type != "purchase" or action.amount is None:
        return ""
    return require_within_limit(token.constraints, action.amount, currency)


def require_within_limit(constraints: TokenConstraints, amount: Amount, currency: str) -> str:
    """The same for any amount, such as one found in a request. As decimals: 0.1 + 0.2 is for others."""
    limit = purchase_limit(constraints, currency)
    if limit is None:
        raise limit_exceeded_error(
            f"{render_money(amount)} was declared; the token sets no limit for purchases, so it allows none. Have one"
            " issued with a limit: remit token issue --max-purchase"
        )
    if amount.currency != limit.currency:
        raise limit_exceeded_error(
            f"{render_money(amount)} was declared; the token allows {render_money(limit)}, and no other currency."
        )
    if to_decimal(amount) > to_decimal(limit):
        raise limit_exceeded_error(f"{render_money(amount)} was declared; the token allows {render_money(limit)}.")
    return f"{to_decimal(amount)} {amount.currency} is within the token's limit"


def purchase_limit(constraints: TokenConstraints, currency: str) -> Amount | None:
    limit = constraints.max_purchase
    return limit if limit is None or isinstance(limit, Amount) else Amount(value=limit, currency=currency)


def render_money(amount: Amount) -> str:
    """`79.90 EUR`; more decimals if there are more."""
    value = to_decimal(amount)
    shown = f"{value:.2f}" if value == round(value, 2) else f"{value:f}"
    return f"{shown} {amount.currency}"


def to_decimal(amount: Amount) -> Decimal:
    """The number as it was written: its shortest spelling, not the binary fraction that stands for it."""
    return Decimal(repr(amount.value))


def require_caller(token: Token, caller: str | None) -> None:
    """Where it is known who asks, it must be whom the token was issued to."""
    if caller is not None and caller != token.agent_id:
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            "the token was issued to another agent",
            where="token, sub",
            next_step="Have a token issued to this one: remit token issue --sub",
        )


# --- the door's nine errors -------------------------------------------------------------------------------------------

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
    """One of the nine, with its payload. What has no place of its own among them is a KERNEL_ERROR.

    Which capability is missing and which constraint is broken stands in the problem's `where`. `selector` is what the
    action named, for an element that is not there.
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
    """The specified words where there are some, else what was wrong; and then what is told nowhere else.

    The errors of elements, capabilities and constraints have no message, so what to do next stands here.
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
    """`why` names the amount, where it stands, and what is allowed."""
    return RefusedError(
        Reason.CONSTRAINT_VIOLATED, AMOUNT_EXCEEDS_LIMIT, where=f"{_CONSTRAINT}max_purchase", next_step=why
    )
