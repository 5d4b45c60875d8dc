"""The services of one process, which all interfaces call. Each service checks the rights of the caller first."""

import logging
from typing import Final, Self

from remit.core.errors import RemitError
from remit.services.base.context import ConsoleUrl, ServiceContext
from remit.services.base.events import Events
from remit.services.base.jobs import Job, JobRunner
from remit.services.browser import BrowserService
from remit.services.catalogue import CatalogueService
from remit.services.goals.service import GoalRequestService
from remit.services.inbox.ledger import LedgerService
from remit.services.inbox.service import Inbox
from remit.services.people import PeopleService
from remit.services.plans.preview_turns import TurnRules
from remit.services.plans.service import PlanService
from remit.services.tasks import TaskService
from remit.services.tokens import TokenService
from remit.workspace.workspace import Workspace

_LOG: Final = logging.getLogger("remit.services")
FORGOTTEN_SHARE: Final = 1 / 32
"""The share of closed proposals whose documents are deleted at a time, once a minute: after half an hour on average."""


class Services:
    """All services of a workspace, one object for each process. Safe to use from any thread.

    Close it before the workspace.
    """

    def __init__(self, workspace: Workspace, *, console_url: ConsoleUrl = None, turns: TurnRules | None = None) -> None:
        """`console_url` is the address of the console. Answers link to it. `turns`: for previews that agents read."""
        self.workspace = workspace
        self.jobs = JobRunner()
        self.events = Events(
            lambda: workspace.store, workspace.approvals.change_signal, workspace.clock, workspace.position_key
        )
        self.jobs.on_progress = self.events.publish_progress
        self._context = ServiceContext(workspace, self.jobs, self.events, console_url)
        self.plans = PlanService(workspace, jobs=self.jobs, console_url=console_url, turns=turns)
        self.tasks = TaskService(self._context)
        self.browser = BrowserService(self._context)
        self.goals = GoalRequestService(self._context)
        self.inbox = Inbox(self._context, self.plans, self.goals)
        self.ledger = LedgerService(self._context)
        self.tokens = TokenService(self._context)
        self.catalogue = CatalogueService(self._context)
        self.people = PeopleService(self._context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start_recovery(self) -> Job[int]:
        """Start the recovery of the interrupted requests of dead processes. A server calls this when it starts."""
        return self._context.start_recovery()

    def state_counted_entries(self) -> None:
        """Write the counts of windows that have ended into the ledger. A server calls this now and then."""
        try:
            self.workspace.refusals.state_ended()
        except RemitError as problem:  # the counts stay in their table
            _LOG.warning("counted refusals are not stated yet", extra={"why": str(problem)})

    def forget_closed_previews(self) -> None:
        """Delete the documents of closed proposals, each by chance. A server calls this now and then."""
        try:
            self.workspace.proposals.forget_closed_previews(FORGOTTEN_SHARE)
        except RemitError as problem:  # they stay until the next time
            _LOG.warning("the previews of closed proposals are not deleted yet", extra={"why": str(problem)})

    def continue_overdue_goals(self) -> None:
        """Continue the goals with several steps that no person answered in time. A server calls this now and then."""
        try:
            for report in self.workspace.goals.continue_overdue():
                if report.problem is not None:
                    _LOG.warning("a goal is not continued yet", extra={"why": str(report.problem)})
        except RemitError as problem:  # such as a database that is unavailable for a while
            _LOG.warning("overdue goals are not continued yet", extra={"why": str(problem)})

    def release_waiters(self) -> None:
        """Answer all waiting callers with the current state, because this process is about to end."""
        self.jobs.release_waiters()
        self.workspace.approvals.change_signal.notify()

    def close(self) -> None:
        """Remove the listeners first, because they would wait without end. Then cancel the jobs, or wait for them."""
        self.events.close()
        self.plans.close()
        self.jobs.close()
