"""One desk for each module of tests, with an office behind it; and whoever comes to it."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.browser.capabilities import SERVICE_CAPABILITIES, is_browser
from remit.identity.callers import AgentCaller, PersonCaller
from remit.identity.models import Role
from remit.identity.person import Person
from remit.services.services import Services
from remit.workspace.workspace import Workspace
from tests.goals.goal_office import Office
from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.task_workspace import MovableClock

__all__ = ["zygotes_are_shared"]

CONSOLE = "http://127.0.0.1:7341"


def person(role: Role = "admin", name: str = "ann", user: str | None = None, tenant: str = "acme") -> PersonCaller:
    return PersonCaller(Person(f"login:{name}"), role, user, tenant if user else None)


def agent(
    workspace: Workspace,
    *caps: str,
    sub: str = "bot",
    user: str | None = None,
    tenant: str = "acme",
    domains: tuple[str, ...] = ("shop.test",),
    life: timedelta = timedelta(hours=1),
) -> AgentCaller:
    """With a real token, verified as a way in does it."""
    whose = {"user": user, "tenant": tenant} if user else {}
    places = {"domains": list(domains)} if any(map(is_browser, caps)) else {}
    constraints = TokenConstraints.from_tree(places | whose)
    text = workspace.tokens.issue(TokenRequest(sub, caps or SERVICE_CAPABILITIES, constraints, life)).text
    return AgentCaller.by(workspace.tokens, text)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    made = Office(tmp_path_factory.mktemp("desk"), clock=MovableClock())
    yield made
    made.close()


@pytest.fixture(scope="module")
def services(office: Office) -> Iterator[Services]:
    with Services(office.workspace, console_url=CONSOLE) as made:
        yield made
