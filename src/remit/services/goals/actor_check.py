"""Checks the caller again in the transaction of each decision about a goal, and records the caller with the first one.

A decision takes time. A person who is removed meanwhile, or an agent whose token is revoked, can no longer decide.
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
    """The check of one request about one goal. It is called in the transaction (`remit.goals.core.TransactionHook`)."""

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
        """Return a function that runs `run` and then checks its reply with `check_reply`."""
        return lambda job: self.check_reply(run(job))

    def check_reply(self, reply: Reply) -> Reply:
        """Return the reply, or raise the refusal of the caller. The core treats that refusal as one of the goal."""
        if self._refusal is not None:
            raise self._refusal
        return reply
