"""Decides by token and by the function's own rule whether an agent may call a function with these arguments."""

import shlex

from remit.authority.capability_token import Token
from remit.calls.function import VERDICTS, GovernedFunction, Verdict, named
from remit.contracts.calls.call import CallArguments
from remit.core.errors import Reason
from remit.execution.decision import Denial, PolicyDecision


def capability_missing(token: Token, function: GovernedFunction) -> Denial | None:
    if function.capability in token.caps:
        return None
    return Denial(
        Reason.CAPABILITY_MISSING,
        "the token does not allow this function",
        where=f"capability {function.capability}",
        next_step=f"Have a token issued that does: remit token issue --sub {shlex.quote(token.agent_id)} --cap"
        f" {function.capability}",
    )


def decide_call(
    token: Token, function: GovernedFunction, arguments: CallArguments
) -> tuple[PolicyDecision, Verdict | None]:
    """Return the decision and the verdict of the rule. A rule that fails or returns anything else refuses."""
    if (denial := capability_missing(token, function)) is not None:
        return PolicyDecision(denials=(denial,)), None
    granted = (f"capability {function.capability} of token {token.jti}",)
    if function.allow is None:
        return PolicyDecision(granted), None
    verdict, why = _apply_rule(function, arguments)
    if verdict == "refuse":
        denial = Denial(
            Reason.ACCESS_DENIED,
            f"the function's own rule refuses these arguments{why}",
            where=f"function {function.name}",
            next_step="Call it with arguments that the rule allows.",
        )
        return PolicyDecision(granted, (denial,)), verdict
    return PolicyDecision((*granted, f"the function's own rule: {verdict}")), verdict


def _apply_rule(function: GovernedFunction, arguments: CallArguments) -> tuple[Verdict, str]:
    if function.allow is None:
        return "refuse", ""
    try:
        verdict = function.allow(**named(arguments))
    except Exception as problem:  # noqa: BLE001 - a rule that raises anything does not allow
        return "refuse", f" (it failed: {type(problem).__name__})"
    if isinstance(verdict, bool):
        return ("allow" if verdict else "refuse"), ""
    if isinstance(verdict, str) and verdict in VERDICTS:
        return verdict, ""  # type: ignore[return-value]
    return "refuse", " (it returned neither allow, ask nor refuse)"
