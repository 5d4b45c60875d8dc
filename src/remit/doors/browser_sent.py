"""What was sent for an action, told beside whatever else is said of it: so that nobody orders twice."""

import contextlib
from dataclasses import dataclass

from remit.approval.refusals import ASK_ANEW
from remit.contracts.browser_errors import NOT_SENT
from remit.doors.browser_cut_short import requests_of
from remit.doors.browser_papers import parse_begun_action
from remit.errors import Reason, Refused, RemitError
from remit.ids import DEFAULT_TENANT
from remit.store.claims import ClaimKey, Done, read_claim
from remit.store.connection import Connection


@dataclass(frozen=True, slots=True)
class Earlier:
    """An action that was begun before, under the very token that asks for it again."""

    has_ended: bool
    sent: int


def earlier_of(connection: Connection, action_id: str, request_digest: str, jti: str) -> Earlier | None:
    """None for whoever asks for something else, or with another token than it was begun with."""
    found = read_claim(connection, ClaimKey(DEFAULT_TENANT, "browser", action_id))
    if found is None or found.request_digest != request_digest:
        return None
    with contextlib.suppress(RemitError):  # a checkpoint that cannot be read vouches for nobody
        if parse_begun_action(found.checkpoint).jti == jti:
            sent = sum(request.state != "NOT_SENT" for request in requests_of(connection, action_id))
            return Earlier(isinstance(found, Done), sent)
    return None


def beside_earlier(problem: Refused, earlier: Earlier) -> Refused:
    """The token does not count any more; what was done with it is done all the same."""
    how = "has ended before" if earlier.has_ended else "was begun before, and has no recorded end yet"
    sent = f"{_counted(earlier.sent)} sent" if earlier.sent else "nothing was sent"
    warning = "; do not ask for it anew" if earlier.sent else ""
    what = f"{problem.what}; this action {how}: {sent}{warning}"
    return Refused(
        problem.reason, what, where=problem.where, next_step="A valid token of the same agent gives its result."
    )


def beside_what_was_sent(problem: RemitError, sent: int) -> RemitError:
    """A no to the second request of an action does not call the first one back."""
    if not sent or problem.reason is Reason.FATE_UNKNOWN:
        return problem
    before = f"This request was not sent; but {_counted(sent, 'before it')}: look at the site, and do not repeat the"
    told = f"{problem.next_step.replace(ASK_ANEW, '').strip()} {before} action."
    what = problem.what.removeprefix(f"{NOT_SENT}: ")
    return type(problem)(problem.reason, what, where=problem.where, next_step=told.strip())


def _counted(sent: int, which: str = "") -> str:
    """`1 request was`, `2 before it were`."""
    return f"{sent} {which or ('request' if sent == 1 else 'requests')} {'was' if sent == 1 else 'were'}"
