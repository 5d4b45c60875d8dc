"""What to do next after a refusal, for whoever came in by HTTP, the console or MCP.

The rooms below advise whoever sits at a terminal, with a plan in a file and flags to give. Here the plan was proposed,
and the person who can answer is elsewhere.
"""

import re
from typing import Final

from remit.core.errors import Reason, RemitError
from remit.identity.callers import AgentCaller, Caller

RESTORE_STEP: Final = (
    "Put it back as it was and apply again; or cancel this plan, and have it proposed anew for things as they are now."
)
_PROPOSE_AGAIN_STEP: Final = "Have the plan proposed anew."
_OF_TERMINAL: Final = re.compile(r"remit (preview|approve|apply|rollback)\b|--(force|checkpoint)\b")
_PICKING: Final = " with --checkpoint"


def advise_after_apply(problem: RemitError) -> RemitError:
    """An approval that cannot be used is not asked for again by the same id: the plan is proposed anew."""
    if not _is_for_a_terminal(problem):
        return problem
    return problem.with_changes(
        next_step=RESTORE_STEP if problem.reason is Reason.BINDING_MISMATCH else _PROPOSE_AGAIN_STEP
    )


def advise_after_undo(problem: RemitError, caller: Caller, link: str | None) -> RemitError:
    """`link` is the page of the run, where a person sees what was changed since and can say that it is to go."""
    if not _is_for_a_terminal(problem):
        return problem
    if problem.reason is Reason.DRIFTED:
        return problem.with_changes(next_step=_advise_on_drift(problem, caller, link))
    if problem.reason is Reason.ROLLBACK_EXPIRED:
        return problem.with_changes(next_step="If its backups are still there, a person can try at a terminal.")
    return problem.with_changes(
        next_step=problem.next_step.replace(_PICKING, "") if _PICKING in problem.next_step else ""
    )


def _advise_on_drift(problem: RemitError, caller: Caller, link: str | None) -> str:
    if problem.what.startswith("rows "):  # nobody is shown those, and no copy of them is kept
        return "Look at these rows. Only a person at a terminal can have them set back; what they are now is lost then."
    if isinstance(caller, AgentCaller):
        return (
            f"Only a person can have them overwritten: {link}" if link else "Only a person can have them overwritten."
        )
    return "Look at what was changed since; a forced undo overwrites it, and keeps a copy of what stands there now."


def _is_for_a_terminal(problem: RemitError) -> bool:
    return _OF_TERMINAL.search(problem.next_step) is not None and "remit recover" not in problem.next_step
