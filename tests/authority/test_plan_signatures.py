"""Rollback orders, and the signed words on how plans and rollbacks ended."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from remit.authority.rollback_order import LIFE, issue_rollback, rollback_key, verify_rollback
from remit.authority.statuses import sign_rollback_outcome, sign_status, verify_rollback_outcome, verify_status
from remit.contracts.plans.outcome import RollbackOutcome
from remit.contracts.plans.rollback import RollbackOrder
from remit.contracts.plans.status import CompletionStatus
from remit.core.errors import Reason, RefusedError, UsageError
from remit.core.ids import render_time
from remit.crypto.signing import Keyring, PublicKey, Signer

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CREATED = "2026-01-01T00:00:00Z"
PROTOCOL = Signer("protocol", Ed25519PrivateKey.from_private_bytes(b"\1" * 32))
EXECUTOR = Signer("executor", Ed25519PrivateKey.from_private_bytes(b"\2" * 32))
KEYRING = Keyring([PublicKey(signer.role, signer.public, CREATED) for signer in (PROTOCOL, EXECUTOR)])
MANIFEST = "0f4f6a1e-1111-4222-8333-444455556666"
CHECKPOINT = "0f4f6a1e-1111-4222-9333-444455556666"
HASH = "sha256:" + "0" * 64


def order(**changes: Any) -> RollbackOrder:
    """As issued, or with contents that the protocol layer signed and should not have."""
    issued = issue_rollback(PROTOCOL, "e-1", MANIFEST, 1, [CHECKPOINT], NOW, force=False)
    if not changes:
        return issued
    draft = RollbackOrder.from_tree({**issued.tree(), **changes})
    body = draft.canonical(without=frozenset({"signature"}))
    return draft.model_copy(update={"signature": PROTOCOL.sign("rollback-order", body)})


def refusal(given: RollbackOrder, now: datetime = NOW) -> Reason:
    with pytest.raises(RefusedError) as refused:
        verify_rollback(given, KEYRING, now)
    return refused.value.reason


@pytest.mark.req("PX-15")
def test_a_good_order_verifies() -> None:
    given = RollbackOrder.parse(order().canonical())
    allowed = verify_rollback(given, KEYRING, NOW)
    assert (allowed.order, allowed.digest, allowed.expires_at) == (given, given.digest(), NOW + LIFE)
    assert given.order_id == rollback_key(MANIFEST, 1)


@pytest.mark.req("PX-15")
def test_an_order_changed_after_signing_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        {"order_id": "other"},
        {"envelope_id": "other"},
        {"manifest_id": CHECKPOINT},
        {"attempt": 2},
        {"checkpoints": []},
        {"force": True},
        {"issued_at": "2026-03-01T12:00:01Z"},
        {"expires_at": "2026-03-01T12:00:01Z"},
    ]
    for changes in cases:
        with subtests.test(changes=changes):
            assert refusal(RollbackOrder.from_tree({**order().tree(), **changes})) is Reason.SIGNATURE_INVALID


@pytest.mark.parametrize(
    "changes, now, reason",
    [
        ({}, NOW + LIFE, Reason.EXPIRED),
        ({}, NOW - timedelta(seconds=31), Reason.NOT_YET_VALID),
        ({"expires_at": render_time(NOW + LIFE + timedelta(seconds=1))}, NOW, Reason.EXPIRED),
        ({"order_id": "other"}, NOW, Reason.BINDING_MISMATCH),
        ({"attempt": 2}, NOW, Reason.BINDING_MISMATCH),
        ({"attempt": 0, "order_id": rollback_key(MANIFEST, 0)}, NOW, Reason.BINDING_MISMATCH),
    ],
)
def test_a_signed_order_holds_now_and_for_its_own_attempt(
    changes: dict[str, Any], now: datetime, reason: Reason
) -> None:
    assert refusal(order(**changes), now) is reason


def test_no_other_role_signs_an_order() -> None:
    with pytest.raises(UsageError):
        issue_rollback(EXECUTOR, "e-1", MANIFEST, 1, [], NOW, force=False)


STATUS: dict[str, Any] = {
    "envelope_id": "e-1",
    "plan_id": "p-1",
    "report_id": MANIFEST,
    "status": "SUCCESS",
    "executor_id": "remit.plan",
    "executor_version": "1.0.0",
    "completed_at": "2026-03-01T12:00:00.000000Z",
    "folder": "agent_outputs/reports/x",
    "report_digest": HASH,
    "change_log_digest": HASH,
    "manifest_digest": None,
}


@pytest.mark.req("PX-37")
def test_a_status_is_signed_by_the_executor() -> None:
    status = CompletionStatus.parse(sign_status(EXECUTOR, STATUS).canonical())
    verify_status(status, KEYRING)
    assert status.key_id == EXECUTOR.key_id
    with pytest.raises(UsageError):
        sign_status(PROTOCOL, STATUS)


@pytest.mark.req("PX-37")
def test_a_status_changed_by_one_field_is_none(subtests: pytest.Subtests) -> None:
    for changes in [
        {"envelope_id": "e-2"},
        {"plan_id": "p-2"},
        {"report_id": CHECKPOINT},
        {"status": "PARTIAL"},
        {"executor_id": "remit.plan+unsafe-none"},
        {"executor_version": "1.0.1"},
        {"completed_at": "2026-03-01T12:00:01Z"},
        {"folder": "agent_outputs/reports/y"},
        {"report_digest": "sha256:" + "1" * 64},
        {"change_log_digest": "sha256:" + "1" * 64},
        {"manifest_digest": HASH},
        {"key_id": PROTOCOL.key_id},
    ]:
        with subtests.test(changes=changes):
            changed = CompletionStatus.from_tree({**sign_status(EXECUTOR, STATUS).tree(), **changes})
            with pytest.raises(RefusedError) as refused:
                verify_status(changed, KEYRING)
            assert refused.value.reason in {Reason.SIGNATURE_INVALID, Reason.KEY_UNKNOWN}


def outcome() -> dict[str, Any]:
    manifest: dict[str, Any] = {
        "manifest_id": MANIFEST,
        "plan_id": "p-1",
        "created_at": CREATED,
        "status": "ACTIVE",
        "checkpoints": [],
        "rollback_order": [],
        "auto_rollback_script": None,
        "notes": "",
    }
    return {
        "order_id": rollback_key(MANIFEST, 1),
        "envelope_id": "e-1",
        "manifest_id": MANIFEST,
        "status": "EXECUTED",
        "restored": [CHECKPOINT],
        "kept": [],
        "manifest": manifest,
        "errors": [],
        "executed_at": "2026-03-01T12:00:00.000000Z",
    }


@pytest.mark.req("PX-15")
def test_the_outcome_of_a_rollback_is_signed_by_the_executor() -> None:
    signed = sign_rollback_outcome(EXECUTOR, outcome())
    verify_rollback_outcome(RollbackOutcome.parse(signed.canonical()), KEYRING)
    changed: list[dict[str, Any]] = [{"status": "PARTIAL"}, {"restored": []}, {"executed_at": CREATED}]
    for changes in changed:
        with pytest.raises(RefusedError) as refused:
            verify_rollback_outcome(RollbackOutcome.from_tree({**signed.tree(), **changes}), KEYRING)
        assert refused.value.reason is Reason.SIGNATURE_INVALID
    with pytest.raises(UsageError):
        sign_rollback_outcome(PROTOCOL, outcome())


def test_a_status_is_not_the_outcome_of_a_rollback() -> None:
    """Each purpose has a signature of its own, also where the same key signs both."""
    status = sign_status(EXECUTOR, STATUS)
    body = status.canonical(without=frozenset({"signature"}))
    KEYRING.verify("plan-status", status.key_id, body, status.signature, signed_at=CREATED)
    with pytest.raises(RefusedError):
        KEYRING.verify("rollback-outcome", status.key_id, body, status.signature, signed_at=CREATED)
