"""Why a call came to nothing, or may have come to something, in words: what, where, and what to do next. Pure."""

from typing import Final

from remit.calls.approval import WaitsForPersonError
from remit.calls.checkpoint import CallCheckpoint, CallRequest
from remit.calls.redaction import hide_private
from remit.contracts.calls.call import CallArguments, CallEffect
from remit.core.errors import EnvironmentFailureError, Reason, RemitError

LOOK_ADVICE: Final = "Look at what it was to change. It is not called again under this key."
DONE_ADVICE: Final = "Do not call it again: its effect took place. Look at what it changed if you need the result."
RETRY_ADVICE: Final = "Call it again under another key, once that is fixed."

NEXT_STEPS: Final[dict[CallEffect, str]] = {
    "none": RETRY_ADVICE,
    "undone": RETRY_ADVICE,
    "done": DONE_ADVICE,
    "unknown": LOOK_ADVICE,
}
"""What to do after a call that failed, by what became of its effect. Only without an effect it is called again."""


def require_model(request: CallRequest) -> CallArguments:
    if request.model is None:
        raise missing_function_error(request)
    return request.model


def describe_call(request: CallRequest) -> str:
    return f"call {request.call_id} of {request.name}"


def call_failure(problem: BaseException, checkpoint: CallCheckpoint, ending: str) -> BaseException:
    """What the function threw, in our words; but whoever interrupts the program still does."""
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
        why += ". Within this call nobody can wait for that: have it called before, give `acting` a `wait`, or declare"
        why += " this function idempotent, without undo, and it waits as well"
    what = f"the function failed with {type(problem).__name__}: {why}. {ended}"
    return EnvironmentFailureError(reason, what, where=describe_call(checkpoint.request), next_step=advice)


def companion_failure(what: str, request: CallRequest, why: str) -> EnvironmentFailureError:
    ending = f"{what}= of this function failed: {hide_private(why, request)}"
    return EnvironmentFailureError(Reason.EFFECT_FAILED, ending, where=describe_call(request))


def unfinished_call_error(problem: RemitError, request: CallRequest) -> EnvironmentFailureError:
    """In place of a signed failure: that would say that nothing was done, and part of it may be."""
    return EnvironmentFailureError(
        Reason.IN_PROGRESS,
        f"it was begun before and has not ended, and this call of it is refused: {problem.what}",
        where=describe_call(request),
        next_step="Get a valid token and ask for this key with it, which tells how it ended; or run: remit recover",
    )


def missing_function_error(request: CallRequest) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.CAPABILITY_UNSUPPORTED,
        "this program does not have the function that was called",
        where=describe_call(request),
        next_step="Start the program that declares it: its first call settles this. Or close it: remit recover"
        f" --abandon {request.call_id}",
    )


def _message_of(problem: BaseException) -> str:
    """What it threw, in its own words. If it fails to say them, what that throws may hold private arguments."""
    try:
        return str(problem)
    except Exception:  # noqa: BLE001 - the function's own code
        return "it does not say why"
