"""From an answer to what the function returned, for whoever wants a value or an exception."""

from typing import Any

from remit.contracts.call import CallAnswer
from remit.errors import EnvironmentFailed, Reason, Refused


def value_of(answer: CallAnswer) -> Any:
    """The value of a call that succeeded. Raises `Refused` where nothing happened, else `EnvironmentFailed`."""
    if answer.waiting is not None:
        raise Refused(
            Reason.APPROVAL_PENDING,
            f"a person has to say yes first: {answer.waiting.what}",
            where=f"question {answer.waiting.approval_id}",
            next_step=f"remit approvals show {answer.waiting.approval_id}; then make the same call with the same key.",
        )
    if answer.result is None or answer.result.error is not None:
        error = answer.result.error if answer.result is not None else None
        if answer.result is None or error is None:
            raise EnvironmentFailed(Reason.INTERNAL, "an answer without a result")
        kind = Refused if answer.result.effect == "none" else EnvironmentFailed
        raise kind(Reason(error.code), error.what, where=error.where, next_step=error.next_step)
    return answer.result.value
