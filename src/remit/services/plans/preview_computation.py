"""Who computes the preview of a proposed plan, one at a time for each agent, and the words about one that is missing.

What the proposing agent may read is computed in turns (`preview_turns`), apart from the rest. Otherwise it would appear
later, or never, because of previews whose duration depends on files that the agent may not read.

A preview of SQL or of a pipeline executes it. For the proposal of an agent it is computed right away only if the
agent's token has the capability plan.execute_preview, and only a number of times an hour. Otherwise a person computes
it. The agent learns of its capability and of nothing else.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller, Caller
from remit.plans.policy.executes import executes_something
from remit.plans.proposals.admission import MAX_IN_WINDOW, PreviewStatus
from remit.plans.proposals.draft import PreviewExecution
from remit.services.base.jobs import CLOSE_SECONDS, Job, JobRunner
from remit.services.base.permissions import Right, has_right
from remit.store.proposals import ProposalRow

FOLDER: Final = "computing"
_POLL_SECONDS: Final = 0.05
MAX_PREVIEWS: Final = 3
"""The most previews that are computed at the same time outside of turns."""
_MAX_TURNS: Final = 64
"""The most turns that wait, run and are cleared up: more than `remit.plans.proposals.turns` gives."""
CAPABILITY: Final = "plan.execute_preview"

_WHY: Final = {
    "capability": f"the plan runs SQL or a pipeline, and the token of its agent has no capability {CAPABILITY}",
    "turn": "computing it took too long and was stopped, and it runs SQL, which no process runs again by itself",
    "rate": f"its agent has had {MAX_IN_WINDOW} previews that run SQL or pipelines within an hour",
}
_NOT_YET: Final = "the process that received the plan ended before, or had too much to do"
FOR_AGENT: Final = (
    f"The plan runs SQL or a pipeline, and your token has no capability {CAPABILITY}. So a person computes its preview"
    " before the decision."
)


def find_execution(caller: Caller, plan: Plan, config: SystemConfig) -> PreviewExecution:
    """Return what computing the preview of this plan later means. It depends on plan, configuration and token only."""
    if not isinstance(caller, AgentCaller) or not executes_something(plan, config):
        return "nothing"
    return "allowed" if has_right(caller, Right.COMPUTE) else "not_allowed"


def find_reason_not_computed(status: PreviewStatus) -> str | None:
    """Return why no preview is stored. None if one is stored or is being computed, or if computing it failed."""
    if status.state != "not_computed":
        return None
    return _WHY[status.deferral] if status.deferral is not None else _NOT_YET


def describe_missing_preview(row: ProposalRow, status: PreviewStatus) -> str | None:
    """Say why no preview is stored and how a person computes it. None as in `find_reason_not_computed`."""
    why = find_reason_not_computed(status)
    if why is None:
        return None
    return (
        f"The preview is not computed: {why}. An operator or an admin computes it: remit approvals"
        f' compute {row.proposal_id}, or "Compute" in the console.'
    )


class PreviewJobs:
    """The jobs that compute the previews of what agents propose. They have their own threads.

    A turn has a thread of its own that waits for its start. So it never waits for the preview of another plan that the
    agent may not read, and is never dropped because of one.
    """

    def __init__(self) -> None:
        self._withheld = JobRunner(MAX_PREVIEWS, one_per_owner=True)
        self._turns = JobRunner(_MAX_TURNS)

    def start(self, subject: str, work: Callable[[Job[None]], None], *, owner: str, in_turn: bool = False) -> None:
        runner = self._turns if in_turn else self._withheld
        runner.start(f"preview:{subject}", work, subject=subject, owner=owner)

    def find(self, subject: str) -> Job[Any] | None:
        return self._withheld.find(subject) or self._turns.find(subject)

    def wait_until_ended(self, seconds: float) -> bool:
        """Wait for the queued and running jobs, also those that these start, and return whether all of them ended."""
        deadline = time.monotonic() + seconds
        while jobs := [*self._turns.active_jobs(), *self._withheld.active_jobs()]:
            if not all(job.wait_until_ended(deadline - time.monotonic()) for job in jobs):
                return False
        return True

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        for runner in (self._turns, self._withheld):
            runner.close(max(deadline - time.monotonic(), 0))


@contextlib.contextmanager
def wait_for_others(state: Path, owner: str, is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Wait until no process of this machine computes a preview for the owner, and keep the others out of the block.

    The lock ends with the process that holds it. Raises CANCELLED if the job is cancelled while it waits.
    """
    folder = state / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    name = f"{sha256(owner.encode()).hexdigest()[:32]}.lock"
    descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while not _try_lock(descriptor):
            if is_cancelled():
                raise RefusedError(Reason.CANCELLED, "the computation of the preview was stopped before it began")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
