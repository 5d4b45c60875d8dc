"""Who asks, in the transaction of a decision about a goal: looked at once more, and recorded with the first one.

A decision takes its time. Whoever was removed, or whose token was revoked, meanwhile decides nothing any more.
"""

from collections.abc import Callable

from remit.core.errors import RefusedError
from remit.goals.service import Reply
from remit.identity.callers import Caller
from remit.ledger.writer import Batch
from remit.services.base.jobs import Job
from remit.services.base.ownership import goal_request_entry

Run = Callable[[Job[Reply]], Reply]


class ActorCheck:
    """Of one request about one goal. Called in the transaction; see `remit.goals.core.TransactionHook`."""

    def __init__(self, caller: Caller, tenant_id: str, correlation_id: str) -> None:
        self._caller = caller
        self._tenant_id = tenant_id
        self._correlation_id = correlation_id
        self._refusal: RefusedError | None = None

    def __call__(self, batch: Batch, *, is_first: bool) -> None:
        try:
            if is_first:
                batch.append(goal_request_entry(self._caller, self._tenant_id, self._correlation_id))
            else:
                batch.require_still_valid(self._caller.actor, self._tenant_id)
        except RefusedError as problem:
            self._refusal = problem
            raise

    def wrap(self, run: Run) -> Run:
        """With a refusal of the caller told as that."""
        return lambda job: self.check_reply(run(job))

    def check_reply(self, reply: Reply) -> Reply:
        """A refusal of the caller, raised as that: the core takes it for one of the goal."""
        if self._refusal is not None:
            raise self._refusal
        return reply
