"""Leases: what verifies, what does not, and in which order the checks run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from remit.authority.lease import MAX_LIFE, issue_lease, signed_body, verify_lease
from remit.contracts.tasks.task import LeaseToken, TaskManifest
from remit.core.errors import Reason, RefusedError, task_code
from remit.crypto.signing import Keyring, PublicKey, Signer

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EXECUTOR = "remit.no-effect"
KERNEL = Signer("kernel", Ed25519PrivateKey.from_private_bytes(b"\1" * 32))
STRANGER = Signer("kernel", Ed25519PrivateKey.from_private_bytes(b"\2" * 32))
PROTOCOL = Signer("protocol", Ed25519PrivateKey.from_private_bytes(b"\3" * 32))
CREATED = "2026-01-01T00:00:00Z"
KEYRING = Keyring([PublicKey("kernel", KERNEL.public, CREATED), PublicKey("protocol", PROTOCOL.public, CREATED)])


def manifest(**changes: Any) -> TaskManifest:
    task = {"task_id": "t-1", "capability_id": "NO_EFFECT", "inputs": {}, "constraints": {"reversible": True}}
    return TaskManifest.from_tree({**task, **changes})


def lease(signer: Signer = KERNEL, life: timedelta = timedelta(minutes=5)) -> LeaseToken:
    return issue_lease(signer, manifest(), EXECUTOR, NOW, life)


def signed(**changes: Any) -> LeaseToken:
    """A lease that the kernel really signed, with contents that it should never sign."""
    draft = LeaseToken.from_tree({**lease().tree(), **changes})
    return draft.model_copy(update={"signature": KERNEL.sign("lease", signed_body(draft, manifest().digest()))})


def refusal(token: LeaseToken, task: TaskManifest | None = None, now: datetime = NOW) -> Reason:
    with pytest.raises(RefusedError) as refused:
        verify_lease(token, task or manifest(), KEYRING, EXECUTOR, now)
    return refused.value.reason


def test_a_good_lease_verifies_and_is_bound_to_its_task() -> None:
    verified = verify_lease(lease(), manifest(), KEYRING, EXECUTOR, NOW)
    assert (verified.task_id, verified.capability_id, verified.executor_id) == ("t-1", "NO_EFFECT", EXECUTOR)


@pytest.mark.parametrize(
    "changes,reason,code",
    [
        ({"task_id": "t-2"}, Reason.SIGNATURE_INVALID, "INVALID_LEASE"),
        ({"expires_at": "2026-03-01T13:00:00Z"}, Reason.SIGNATURE_INVALID, "INVALID_LEASE"),
        ({"capability_id": "FILE_DELETE"}, Reason.SIGNATURE_INVALID, "INVALID_LEASE"),
        ({"executor_id": "other"}, Reason.SIGNATURE_INVALID, "INVALID_LEASE"),
        ({"lease_id": "other"}, Reason.SIGNATURE_INVALID, "INVALID_LEASE"),
        ({"key_id": PROTOCOL.key_id}, Reason.KEY_UNKNOWN, "INVALID_LEASE"),
        ({"key_id": STRANGER.key_id}, Reason.KEY_UNKNOWN, "INVALID_LEASE"),
    ],
)
def test_a_lease_changed_after_signing_is_refused(changes: dict[str, str], reason: Reason, code: str) -> None:
    changed = LeaseToken.from_tree({**lease().tree(), **changes})
    assert refusal(changed) is reason
    assert task_code(reason) == code


@pytest.mark.parametrize(
    "changes,reason",
    [
        ({"task_id": "t-2"}, Reason.BINDING_MISMATCH),
        ({"capability_id": "FILE_DELETE"}, Reason.BINDING_MISMATCH),
        ({"executor_id": "other"}, Reason.BINDING_MISMATCH),
        ({"issued_at": "2026-03-01T13:00:00Z", "expires_at": "2026-03-01T13:05:00Z"}, Reason.NOT_YET_VALID),
        ({"expires_at": "2036-03-01T12:00:00Z"}, Reason.BINDING_MISMATCH),
        ({"expires_at": "2026-03-01T12:00:00Z"}, Reason.EXPIRED),
    ],
)
def test_a_signed_lease_that_does_not_fit_the_task_is_refused(changes: dict[str, str], reason: Reason) -> None:
    assert refusal(signed(**changes)) is reason


@pytest.mark.req("EI-06")
def test_the_signature_is_checked_before_anything_else() -> None:
    hopeless = LeaseToken.from_tree({**lease().tree(), "task_id": "t-2", "expires_at": "2020-01-01T00:00:00Z"})
    assert refusal(hopeless) is Reason.SIGNATURE_INVALID


@pytest.mark.req("EI-06")
def test_the_task_is_checked_before_the_expiry() -> None:
    assert refusal(signed(task_id="t-2"), now=NOW + timedelta(days=1)) is Reason.BINDING_MISMATCH


def test_an_expired_lease_is_refused_at_the_very_second() -> None:
    assert refusal(lease(), now=NOW + timedelta(minutes=5)) is Reason.EXPIRED
    last_moment = NOW + timedelta(minutes=5, microseconds=-1)
    assert verify_lease(lease(), manifest(), KEYRING, EXECUTOR, last_moment).task_id == "t-1"


@pytest.mark.parametrize(
    "changes",
    [
        {"task_id": "t-2"},
        {"constraints": {"reversible": False}},
        {"capability_id": "OTHER", "inputs": {"path": "/etc/passwd"}},
        {"capability_id": "OTHER"},
    ],
)
def test_a_lease_fits_the_manifest_it_was_issued_for_and_no_other(changes: dict[str, Any]) -> None:
    assert refusal(lease(), manifest(**changes)) is Reason.SIGNATURE_INVALID


def test_a_retired_kernel_key_signs_no_new_lease_but_its_old_ones_live_out() -> None:
    retired = Keyring([PublicKey("kernel", KERNEL.public, CREATED, retired_at="2026-03-01T12:00:01Z")])
    assert verify_lease(lease(), manifest(), retired, EXECUTOR, NOW + timedelta(minutes=1)).task_id == "t-1"
    late = issue_lease(KERNEL, manifest(), EXECUTOR, NOW + timedelta(seconds=2), timedelta(minutes=5))
    with pytest.raises(RefusedError) as refused:
        verify_lease(late, manifest(), retired, EXECUTOR, NOW + timedelta(seconds=3))
    assert refused.value.reason is Reason.KEY_RETIRED


@pytest.mark.parametrize("life", [timedelta(0), timedelta(seconds=-1), MAX_LIFE + timedelta(seconds=1)])
def test_the_kernel_issues_no_lease_without_a_sensible_end(life: timedelta) -> None:
    with pytest.raises(RefusedError):
        lease(life=life)


def test_a_stranger_cannot_issue_a_lease() -> None:
    assert refusal(lease(STRANGER)) is Reason.KEY_UNKNOWN
