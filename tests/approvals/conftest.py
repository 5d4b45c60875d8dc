"""Approval requests on SQLite and PostgreSQL."""

from dataclasses import dataclass
from typing import Any

import pytest

from remit.approvals.service import ApprovalRequest, ApprovalService
from remit.contracts.browser.browser import Approval, HTTPPreview
from remit.fs.change_signal import ChangeSignal
from remit.identity.person import Person
from remit.ledger.writer import Batch
from tests.support.store_fixtures import World, database_url, dialect, empty_store, store, store_url, world

__all__ = ["database_url", "dialect", "empty_store", "store", "store_url", "world"]

ADA = Person("os:ada")
PREVIEW: dict[str, Any] = {
    "method": "POST",
    "url": "https://shop.example/pay",
    "headers": {"content-type": "application/x-www-form-urlencoded"},
    "body": {"masked": {"card": "****-****-****-1234"}, "preview": {"item": "tea"}},
    "estimatedEffect": "Buys tea",
}


def digest_of(letter: str) -> str:
    return "sha256:" + letter * 64


def question(number: int = 1, **changes: Any) -> ApprovalRequest:
    given: dict[str, Any] = {
        "agent_id": "agent-1",
        "token_jti": "token-1",
        "action_id": f"action-{number}",
        "action_digest": digest_of("a"),
        "request_digest": digest_of("b"),
        "preview": HTTPPreview.from_tree(PREVIEW),
        **changes,
    }
    return ApprovalRequest(**given)


@dataclass
class Desk:
    """The approvals of a world, and the code of the host that uses them."""

    world: World
    approvals: ApprovalService

    def ask(self, number: int = 1, **changes: Any) -> Approval:
        return self.approvals.ask(question(number, **changes))

    def yes(self, approval_id: str) -> Approval:
        return self.approvals.decide(approval_id, approved=True, who=ADA)

    def no(self, approval_id: str) -> Approval:
        return self.approvals.decide(approval_id, approved=False, who=ADA)

    def use(self, approval_id: str, **changes: str) -> Approval:
        fitting = {"request_digest": digest_of("b"), "action_digest": digest_of("a"), "token_jti": "token-1"}

        def work(batch: Batch) -> Approval:
            return self.approvals.use(batch, approval_id, **{**fitting, **changes})

        return self.world.ledger.transact(work)

    def kinds(self) -> list[str]:
        query = "SELECT kind FROM ledger_entries WHERE kind LIKE 'approval.%' ORDER BY seq"
        return [kind.removeprefix("approval.") for (kind,) in self.world.attacker.run(query)]

    def state(self, approval_id: str) -> str:
        [(state,)] = self.world.attacker.run("SELECT state FROM approvals WHERE approval_id = ?", (approval_id,))
        return str(state)


@pytest.fixture
def desk(world: World) -> Desk:
    change_signal = ChangeSignal(world.keys.parent / "approvals.bell")
    return Desk(world, ApprovalService(lambda: world.ledger, change_signal, world.clock))
