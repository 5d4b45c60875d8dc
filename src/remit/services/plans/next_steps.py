"""The next step after a refusal, for callers of HTTP, the console and MCP.

The errors of lower packages advise a person at a terminal, who has the plan in a file and can give options. Here the
plan was proposed, and the caller may be unable to use a terminal of this machine.
"""

import re
from typing import Final

from remit.core.errors import Reason, RefusedError, RemitError
from remit.identity.callers import AgentCaller, Caller
from remit.plans.rollback.preview import ROWS_CHANGED

RESTORE_STEP: Final = (
    "Restore what was changed, and apply the plan again; or cancel it, and propose it again, with another key, for the"
    " files and rows as they are now."
)
_PROPOSE_AGAIN_STEP: Final = "Propose the plan again, with another key."
_OF_TERMINAL: Final = re.compile(
    r"remit (preview|approve|apply|rollback)\b|--(force|checkpoint)\b|[Pp]review the plan again"
)
_APPROVE_AGAIN: Final = re.compile(
    r"(?:Or p|P)review the plan again(?:, | )?(?:with `remit preview`)?,? and approve it again"
    r"(?: if it is still wanted)?\."
)
"""What lower packages advise a person who has the plan in a file. An approved proposal cannot be approved again."""
_CAN_BE_RESTORED: Final = frozenset({Reason.BINDING_MISMATCH, Reason.HASH_MISMATCH})
_PICKING: Final = " with --checkpoint"


def advise_after_apply(problem: RemitError) -> RemitError:
    """Replace advice for a terminal after a refused apply. An unusable approval needs a new proposal of the plan."""
    if not _is_for_a_terminal(problem):
        return problem
    return problem.with_changes(
        next_step=RESTORE_STEP if problem.reason is Reason.BINDING_MISMATCH else _PROPOSE_AGAIN_STEP
    )


def advise_on_proposal(problem: RefusedError, proposal_id: str, envelope_id: str) -> RefusedError:
    """Replace the advice to approve again, for a person at a terminal whose proposed plan was not applied."""
    found = _APPROVE_AGAIN.search(problem.next_step)
    if found is None:
        return problem
    apply = f"remit apply --proposal {proposal_id}"
    first = problem.next_step[: found.start()].replace("apply again", f"apply again ({apply})", 1)
    if problem.reason is Reason.EXPIRED:
        return _with_next_step(problem, f"{first}{_PROPOSE_AGAIN_STEP}")
    if not first and problem.reason in _CAN_BE_RESTORED:
        first = f"Restore what was changed, and apply the plan again: {apply}. "
    withdraw = f"{'Or withdraw' if first else 'Withdraw'} it (remit cancel {envelope_id})"
    return _with_next_step(problem, f"{first}{withdraw}, and propose it again with another --key.")


def advise_after_undo(problem: RemitError, caller: Caller, link: str | None) -> RemitError:
    """Replace advice for a terminal after a refused rollback.

    `link` is the page of the run. There a person sees what changed since, and can overwrite it.
    """
    if not _is_for_a_terminal(problem):
        return problem
    if problem.reason is Reason.DRIFTED:
        return problem.with_changes(next_step=_advise_on_drift(problem, caller, link))
    if problem.reason is Reason.ROLLBACK_EXPIRED:
        return problem.with_changes(
            next_step="If its backups still exist, a person can try the rollback at a terminal."
        )
    return problem.with_changes(
        next_step=problem.next_step.replace(_PICKING, "") if _PICKING in problem.next_step else ""
    )


def _advise_on_drift(problem: RemitError, caller: Caller, link: str | None) -> str:
    if problem.what.startswith(ROWS_CHANGED):  # no page shows these rows, and a rollback keeps no copy of them
        return "Inspect these rows. Only a person at a terminal can restore them. Their current values are then lost."
    if isinstance(caller, AgentCaller):
        return (
            f"Only a person can overwrite these changes: {link}"
            if link
            else "Only a person can overwrite these changes."
        )
    return "Review what changed since. A forced rollback overwrites it, and keeps a copy of the current files."


def _is_for_a_terminal(problem: RemitError) -> bool:
    return _OF_TERMINAL.search(problem.next_step) is not None and "remit recover" not in problem.next_step


def _with_next_step(problem: RefusedError, next_step: str) -> RefusedError:
    return RefusedError(problem.reason, problem.what, where=problem.where, next_step=next_step)
