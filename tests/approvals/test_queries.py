"""Lasting approval requests, which no process holds, on SQLite and PostgreSQL."""

from datetime import timedelta

import pytest

from remit.contracts.browser.browser import LASTING
from remit.contracts.calls.call import CallPreview
from remit.core.errors import RefusedError
from tests.approvals.conftest import ADA, Desk, digest_of

CALL = CallPreview.from_tree(
    {
        "function": "crm.set_discount",
        "arguments": {"customer": "acme", "password": "hunter22"},
        "estimatedEffect": "acme gets 5%, tells ada@example.com",
        "risk": "HIGH",
        "reversible": False,
        "wayBack": "None. Its effect cannot be undone.",
    }
)


def test_a_lasting_request_is_created_once_and_keeps_its_decision_and_another_effect_needs_a_new_request(
    desk: Desk,
) -> None:
    lasting = {"preview": CALL, "lasting": True, "life": timedelta(hours=24)}
    first = desk.ask(1, **lasting)
    assert desk.ask(1, **lasting) == first
    assert (first.host, desk.kinds()) == (LASTING, ["requested"])
    assert isinstance(first.preview, CallPreview)
    assert "hunter22" not in str(first.preview)
    assert "ada@example.com" not in str(first.preview)
    assert desk.approvals.void_orphans() == []

    desk.no(first.approval_id)
    assert desk.ask(1, **lasting).state == "DENIED"
    other = desk.ask(1, **lasting, request_digest=digest_of("c"))
    assert other.state == "PENDING"

    desk.yes(other.approval_id)
    assert desk.ask(1, **lasting, request_digest=digest_of("c")).state == "APPROVED"
    newer = desk.ask(1, **lasting, request_digest=digest_of("d"))
    assert [desk.state(each.approval_id) for each in (first, other, newer)] == ["DENIED", "VOID", "PENDING"]
    with pytest.raises(RefusedError):
        desk.use(other.approval_id, request_digest=digest_of("c"))

    elsewhere = desk.ask(1, **lasting, request_digest=digest_of("d"), token_jti="token-2")
    assert elsewhere.approval_id != newer.approval_id
    assert desk.state(newer.approval_id) == "PENDING", "the request of one token voided that of another"
    held = desk.ask(1, request_digest=digest_of("e"))
    assert desk.ask(1, **lasting, request_digest=digest_of("d")) == newer
    assert desk.state(held.approval_id) == "PENDING", "a held request was taken for a lasting one"

    desk.approvals.decide(newer.approval_id, approved=True, who=ADA)
    assert desk.use(newer.approval_id, request_digest=digest_of("d")).state == "USED"
    assert desk.ask(1, **lasting, request_digest=digest_of("d")).approval_id != newer.approval_id
    assert desk.world.verify().holds
