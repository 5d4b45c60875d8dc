"""The desk of one process: what every way in calls, and nothing else. Each part looks who calls before all else."""

from typing import Self

from remit.services.base.context import ConsoleUrl, ServiceContext
from remit.services.base.events import Events
from remit.services.base.jobs import Job, JobRunner
from remit.services.browser import BrowserDesk
from remit.services.catalogue import CatalogueDesk
from remit.services.goals.service import GoalDesk
from remit.services.inbox.ledger import Record
from remit.services.inbox.service import Inbox
from remit.services.people import PeopleDesk
from remit.services.plans.service import PlanDesk
from remit.services.tasks import TaskDesk
from remit.services.tokens import TokenDesk
from remit.workspace.workspace import Workspace


class Services:
    """One for each process; safe to use from any thread. Close it before the workspace."""

    def __init__(self, workspace: Workspace, *, console_url: ConsoleUrl = None) -> None:
        """`console_url` is where people find the console: answers link to it."""
        self.workspace = workspace
        self.work = JobRunner()
        self.events = Events(lambda: workspace.store, workspace.approvals.bell, workspace.clock, workspace.position_key)
        self.work.on_progress = self.events.tell_progress
        self._room = ServiceContext(workspace, self.work, self.events, console_url)
        self.plans = PlanDesk(workspace, work=self.work, console_url=console_url)
        self.tasks = TaskDesk(self._room)
        self.browser = BrowserDesk(self._room)
        self.goals = GoalDesk(self._room)
        self.inbox = Inbox(self._room, self.plans, self.goals)
        self.record = Record(self._room)
        self.tokens = TokenDesk(self._room)
        self.catalogue = CatalogueDesk(self._room)
        self.people = PeopleDesk(self._room)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def settle(self) -> Job[int]:
        """Finish or clear away what a process that died had begun: for whoever starts serving."""
        return self._room.settle()

    def let_go(self) -> None:
        """Answer everybody who waits with how things stand: this process is about to end."""
        self.work.let_go()
        self.workspace.approvals.bell.ring()

    def close(self) -> None:
        """Listeners are let go first: they would wait for ever. Then the work: cancelled, or waited for."""
        self.events.close()
        self.plans.close()
        self.work.close()
