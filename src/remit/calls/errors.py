"""The errors of calls, with the problem, the place and the next step. Pure functions."""

from typing import Final

from remit.calls.approval import WaitsForPersonError
from remit.calls.checkpoint import CallCheckpoint, CallRequest
from remit.calls.redaction import hide_private
from remit.contracts.calls.call import CallArguments, CallEffect
from remit.core.errors import EnvironmentFailureError, Reason, RemitError

LOOK_ADVICE: Final = "Check whether the change was made. It is not called again under this key."
DONE_ADVICE: Final = "Do not call it again: its effect took place. Check the changed data if you need the result."
RETRY_ADVICE: Final = "Call it again under another key, once that is fixed."

NEXT_STEPS: Final[dict[CallEffect, str]] = {
    "none": RETRY_ADVICE,
    "undone": RETRY_ADVICE,
    "done": DONE_ADVICE,
    "unknown": LOOK_ADVICE,
}
"""The next step after a failed call, by the state of its effect. Only a call without an effect is made again."""


def require_model(request: CallRequest) -> CallArguments:
    if request.model is None:
        raise missing_function_error(request)
    return request.model


def describe_call(request: CallRequest) -> str:
    return f"call {request.call_id} of {request.name}"


def call_failure(problem: BaseException, checkpoint: CallCheckpoint, ending: str) -> BaseException:
    """Turn an exception of the function into a failure. An interrupt of the program stays as it is."""
    if not isinstance(problem, Exception):
        return problem
    ends = {
        "undone": "It was undone.",
        "none": "It only reads, so nothing was changed.",
    }
    ended = ending or ends.get(checkpoint.fate.effect, "Whether it took effect is not known.")
    reason = Reason.FATE_UNKNOWN if checkpoint.fate.effect == "unknown" else Reason.EFFECT_FAILED
    advice = NEXT_STEPS[checkpoint.fate.effect]
    why = hide_private(_message_of(problem), checkpoint.request)
    if checkpoint.fate.effect == "done":
        what = f"done, result could not be stored: {why}"
        return EnvironmentFailureError(reason, what, where=describe_call(checkpoint.request), next_step=advice)
    if isinstance(problem, WaitsForPersonError):
        why += ". This call cannot wait for that. Make the other call before it, give `acting` a `wait`, or declare"
        why += " this function idempotent, without undo; then it waits as well"
    what = f"the function failed with {type(problem).__name__}: {why}. {ended}"
    return EnvironmentFailureError(reason, what, where=describe_call(checkpoint.request), next_step=advice)


def companion_failure(what: str, request: CallRequest, why: str) -> EnvironmentFailureError:
    ending = f"{what}= of this function failed: {hide_private(why, request)}"
    return EnvironmentFailureError(Reason.EFFECT_FAILED, ending, where=describe_call(request))


def unfinished_call_error(problem: RemitError, request: CallRequest) -> EnvironmentFailureError:
    """Make the error that replaces a signed failure, which would say that nothing was done."""
    return EnvironmentFailureError(
        Reason.IN_PROGRESS,
        f"an earlier call with this key has not ended, and this call is refused: {problem.what}",
        where=describe_call(request),
        next_step="Repeat the call with a valid token to get its outcome, or run: remit recover",
    )


def missing_function_error(request: CallRequest) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.CAPABILITY_UNSUPPORTED,
        "this program does not have the called function",
        where=describe_call(request),
        next_step="Start the program that declares it: its first call recovers this one. Or close it: remit recover"
        f" --abandon {request.call_id}",
    )


def _message_of(problem: BaseException) -> str:
    """Return the exception's own message. An exception raised by `str` is not shown: it may hold private arguments."""
    try:
        return str(problem)
    except Exception:  # noqa: BLE001 - the function's own code
        return "its message cannot be read"
