"""A workspace with a small customer register, and functions that change it for agents."""

import os
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import Approval, TokenConstraints
from remit.contracts.calls.call import CallAnswer, CallResult
from remit.governed_functions import governed
from remit.identity.person import Person
from remit.workspace.workspace import Workspace
from tests.support.task_workspace import MovableClock, made_workspace

AGENT = "agent-1"
ADA = Person("os:ada")
LIFE = timedelta(days=2)


@dataclass
class Place:
    workspace: Workspace
    clock: MovableClock
    discounts: dict[str, int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def token(self, *names: str, agent: str = AGENT, life: timedelta = LIFE) -> str:
        caps = tuple(f"call.{name}" for name in names)
        return self.workspace.tokens.issue(TokenRequest(agent, caps, TokenConstraints(), life)).text

    def pending(self) -> list[Approval]:
        return self.workspace.approvals.listed("PENDING")

    def yes(self, answer: CallAnswer) -> None:
        assert answer.waiting is not None
        self.workspace.approvals.decide(answer.waiting.approval_id, approved=True, who=ADA)

    def no(self, answer: CallAnswer) -> None:
        assert answer.waiting is not None
        self.workspace.approvals.decide(answer.waiting.approval_id, approved=False, who=ADA, reason="too much")

    def kinds(self, call_id: str) -> list[str]:
        query = "SELECT kind FROM ledger_entries WHERE correlation_id = ? ORDER BY seq"
        with self.workspace.store.reading() as connection:
            return [kind for (kind,) in connection.rows(query, (call_id,))]

    def payloads(self, call_id: str) -> str:
        query = "SELECT payload FROM ledger_entries WHERE correlation_id = ? ORDER BY seq"
        with self.workspace.store.reading() as connection:
            return "\n".join(payload for (payload,) in connection.rows(query, (call_id,)))


def made_place(folder: Path) -> Place:
    environ = {"REMIT_STATE": str(folder / "state"), "PATH": os.environ["PATH"]}
    clock = MovableClock()
    return Place(made_workspace(folder, environ, clock), clock)


def result_of(answer: CallAnswer) -> CallResult:
    assert answer.result is not None, answer
    return answer.result


def code_of(answer: CallAnswer) -> str:
    error = result_of(answer).error
    assert error is not None, answer
    return error.code


def declared(place: Place, name: str, **more: Any) -> Any:
    """A governed function that sets a discount, declared as the test needs it."""

    @governed(place.workspace, name, **more)
    def set_discount(customer: str, percent: int) -> dict[str, Any]:
        """Set a customer's discount."""
        place.calls.append(customer)
        place.discounts[customer] = percent
        return {"customer": customer, "percent": percent}

    return set_discount
