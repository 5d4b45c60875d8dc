"""`remit ledger verify` finds changes to tokens and approvals that were made past the guards of their tables."""

from datetime import timedelta
from pathlib import Path

import pytest

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.identity.person import Person
from remit.identity.tokens import Tokens
from remit.ledger.findings import RecordFault
from tests.approvals.conftest import Desk
from tests.identity.conftest import made_tokens, policy_key
from tests.support.store_fixtures import World

__all__ = ["policy_key"]

CHANGES = {
    "a denial turned into an approval": (
        "UPDATE approvals SET state = 'APPROVED' WHERE state = 'DENIED'",
        RecordFault.ROW_EDITED,
    ),
    "a decision of a pending request": (
        "UPDATE approvals SET state = 'DENIED', decided_by = 'os:eve' WHERE state = 'PENDING'",
        RecordFault.ROW_EDITED,
    ),
    "another approver": (
        "UPDATE approvals SET decided_by = 'os:eve' WHERE state = 'DENIED'",
        RecordFault.ROW_EDITED,
    ),
    "another preview": ("UPDATE approvals SET preview = '{}'", RecordFault.ROW_EDITED),
    "another agent": ("UPDATE approvals SET agent_id = 'agent-2'", RecordFault.ROW_EDITED),
    "a request removed": ("DELETE FROM approvals WHERE state = 'PENDING'", RecordFault.ROW_MISSING),
    "a token removed": ("DELETE FROM browser_tokens", RecordFault.ROW_MISSING),
    "another token": ("UPDATE browser_tokens SET token_digest = 'sha256:x'", RecordFault.ROW_EDITED),
    "a revocation removed": ("DELETE FROM browser_token_revocations", RecordFault.ROW_MISSING),
    "another token's revocation": ("UPDATE browser_token_revocations SET jti = 'x'", RecordFault.ROW_EDITED),
    "a token planted": (
        """INSERT INTO browser_tokens SELECT tenant_id, 'planted', sub, kid, issued_at, not_before, expires_at, caps,
          constraints, token_digest, entry_seq FROM browser_tokens""",
        RecordFault.ROW_WITHOUT_EVIDENCE,
    ),
}


@pytest.fixture
def filled(desk: Desk, world: World, policy_key: Path) -> World:
    """Approval requests in four states, and a revoked token."""
    for number, approved in enumerate((True, True, False)):
        asked = desk.ask(number)
        desk.approvals.decide(asked.approval_id, approved=approved, who=Person("os:ada"))
        if number == 0:
            desk.use(asked.approval_id)
    desk.ask(3)
    tokens: Tokens = made_tokens(world, policy_key)
    wish = TokenRequest("agent-1", ("browser.click",), TokenConstraints(), timedelta(hours=1))
    tokens.revoke(tokens.issue(wish).claims.jti, actor="os:ada")
    return world


def test_rows_that_remit_wrote_pass_verification(filled: World) -> None:
    assert filled.verify().findings == []


TABLES = ("browser_tokens", "browser_token_revocations", "approvals")


def test_verification_finds_every_change_past_the_guards(filled: World) -> None:
    """All changes use one world, and each is undone after its check: to make a world takes longer than a check."""
    attacker = filled.attacker
    rows = {table: attacker.run(f"SELECT * FROM {table}") for table in TABLES}
    emptied = [f"DELETE FROM {table}" for table in reversed(TABLES)]
    again = [
        (f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row) for table in TABLES for row in rows[table]
    ]
    for name, (statement, fault) in CHANGES.items():
        attacker.tamper(statement)
        assert fault in filled.faults(), name
        attacker.tamper(*emptied, *again)
        assert filled.verify().findings == [], name
