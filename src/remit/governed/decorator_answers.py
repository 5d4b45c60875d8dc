"""From an answer to what the function returned, for whoever wants a value or an exception."""

from typing import Any

from remit.calls.approval import WaitsForPerson
from remit.contracts.calls.call import CallAnswer
from remit.core.errors import EnvironmentFailed, Reason, Refused


def value_of(answer: CallAnswer) -> Any:
    """The value of a call that succeeded. Raises `Refused` where nothing happened, else `EnvironmentFailed`."""
    if answer.waiting is not None:
        raise WaitsForPerson(answer.waiting)
    if answer.result is None or answer.result.error is not None:
        error = answer.result.error if answer.result is not None else None
        if answer.result is None or error is None:
            raise EnvironmentFailed(Reason.INTERNAL, "an answer without a result")
        kind = Refused if answer.result.effect == "none" else EnvironmentFailed
        raise kind(Reason(error.code), error.what, where=error.where, next_step=error.next_step)
    return answer.result.value
