"""A project with a desk, an agent that proposes, and people of each role."""

import itertools
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.services.plans import ProposalView
from remit.core.errors import RemitError
from remit.identity.callers import AgentCaller, Caller, PersonCaller
from remit.identity.person import Person
from remit.services.base.jobs import JobRunner
from remit.services.plans.service import PlanService
from tests.plans.project import Project, plan_of, replace
from tests.support.task_workspace import MovableClock

CAPS = ("plan.propose", "plan.execute_preview", "plan.apply", "plan.undo")
ADMIN = PersonCaller(Person("os:ada"), "admin")
APPROVER = PersonCaller(Person("os:bob"), "approver")
OPERATOR = PersonCaller(Person("os:oto"), "operator")
VIEWER = PersonCaller(Person("os:vera"), "viewer")
CONSOLE = "https://remit.example"


class ProposalWorkspace:
    """Its clock can be moved; what it makes has names of its own, so that tests share it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = MovableClock()
        self.project = Project(folder, self.clock, **settings)
        self.work = JobRunner()
        self.plans = PlanService(self.project.workspace, jobs=self.work, console_url=CONSOLE)
        self._numbers = itertools.count(1)
        self.agent = self.issue_token("bot")

    @property
    def workspace(self) -> Any:
        return self.project.workspace

    def close(self) -> None:
        self.plans.close()
        self.work.close()
        self.project.close()

    def issue_token(
        self, agent: str, *caps: str, life: timedelta = timedelta(days=2), **constraints: Any
    ) -> AgentCaller:
        wish = TokenRequest(agent, caps or CAPS, TokenConstraints(**constraints), life)
        issued = self.workspace.tokens.issue(wish)
        return AgentCaller.by(self.workspace.tokens, issued.text)

    def make_plan(self, name: str = "") -> tuple[bytes, str]:
        """A plan that changes a file of its own, and the file's path."""
        path = name or f"file{next(self._numbers)}.txt"
        self.project.write(path)
        return plan_of(replace("a", path), plan_id=f"plan-{path}"), path

    def make_proposed(self, caller: Caller | None = None, **more: Any) -> tuple[ProposalView, str]:
        document, path = self.make_plan()
        return self.plans.propose(caller or self.agent, document, **more), path

    def approve(self, proposal_id: str, caller: Caller = APPROVER, **more: Any) -> ProposalView:
        shown = self.plans.read_preview(caller, proposal_id)
        return self.plans.decide(caller, proposal_id, approved=True, preview_digest=shown.preview_digest, **more)

    def make_approved(self, caller: Caller | None = None) -> tuple[ProposalView, str]:
        made, path = self.make_proposed(caller)
        return self.approve(made.proposal_id), path

    def make_applied(self, caller: Caller | None = None) -> tuple[ProposalView, str]:
        made, path = self.make_approved(caller)
        return self.plans.apply(caller or self.agent, made.proposal_id, wait=30), path

    def read_entries(self, correlation_id: str) -> list[tuple[str, str | None]]:
        with self.workspace.store.reading() as connection:
            query = "SELECT kind, actor FROM ledger_entries WHERE correlation_id = ? ORDER BY seq"
            return [(row[0], row[1]) for row in connection.rows(query, (correlation_id,))]


def refusal_of(call: Any, *arguments: Any, **more: Any) -> RemitError:
    with pytest.raises(RemitError) as caught:
        call(*arguments, **more)
    return caught.value
