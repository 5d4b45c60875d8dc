"""Envelopes: what verifies, what does not, and in which order the checks run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from remit.authority.envelope import (
    DEFAULT_LIFE,
    MAX_LIFE,
    digest_of_envelope,
    issue_envelope,
    signed_body,
    verify_envelope,
)
from remit.contracts.plans.envelope import Approvals, ApprovedInput, Envelope
from remit.contracts.plans.error_codes import plan_error
from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason, RefusedError, UsageError
from remit.core.ids import render_time
from remit.crypto.signing import Keyring, PublicKey, Signer

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CREATED = "2026-01-01T00:00:00Z"
CONFIG = "sha256:" + "c" * 64
PROTOCOL = Signer("protocol", Ed25519PrivateKey.from_private_bytes(b"\1" * 32))
STRANGER = Signer("protocol", Ed25519PrivateKey.from_private_bytes(b"\2" * 32))
KERNEL = Signer("kernel", Ed25519PrivateKey.from_private_bytes(b"\3" * 32))
KEYRING = Keyring([PublicKey("protocol", PROTOCOL.public, CREATED), PublicKey("kernel", KERNEL.public, CREATED)])
APPROVALS = Approvals(protected=(".env",), executable=("run.sh",), content=("a.yaml",), irreversible=("p1",))
INPUTS = [
    ApprovedInput.from_tree({"path": "b", "digest": "sha256:" + "1" * 64}),
    ApprovedInput.from_tree({"path": "a", "digest": "sha256:" + "2" * 64}),
]


def plan(content: str = "x") -> Plan:
    action = {"action_id": "a", "action_type": "FILE_CREATE", "target": "f"}
    return Plan.from_tree(
        {"plan_id": "p", "action_plan": [{**action, "operation": {"type": "write", "content": content}}]}
    )


def envelope(signer: Signer = PROTOCOL, life: timedelta = DEFAULT_LIFE) -> Envelope:
    return issue_envelope(signer, plan(), CONFIG, INPUTS, APPROVALS, NOW, life)


def signed(**changes: Any) -> Envelope:
    """An envelope that the protocol layer really signed, with contents that it should never sign."""
    draft = Envelope.from_tree({**envelope().tree(), **changes})
    return draft.model_copy(update={"signature": PROTOCOL.sign("envelope", signed_body(draft))})


def refusal(given: Envelope, now: datetime = NOW, *, config: str = CONFIG, keyring: Keyring = KEYRING) -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        verify_envelope(given, config, keyring, now, plan_digest=given.plan.digest())
    return refused.value


@pytest.mark.req("PX-01", "PX-02")
def test_a_good_envelope_verifies_and_is_bound_to_its_plan() -> None:
    given = Envelope.parse(envelope().canonical())
    approved = verify_envelope(given, CONFIG, KEYRING, NOW, plan_digest=given.plan.digest())
    assert approved.envelope == given
    assert approved.expires_at == NOW + DEFAULT_LIFE
    assert approved.digest == digest_of_envelope(given)
    assert [item.path for item in given.inputs] == ["a", "b"]


OTHER_TIME = "2026-03-01T12:30:00Z"


@pytest.mark.req("PX-02")
def test_an_envelope_changed_after_signing_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        ({"envelope_id": "other"}, Reason.SIGNATURE_INVALID),
        ({"config_digest": "sha256:" + "d" * 64}, Reason.SIGNATURE_INVALID),
        ({"plan_digest": plan("y").digest()}, Reason.SIGNATURE_INVALID),
        ({"plan_digest": plan("y").digest(), "plan": plan("y").tree()}, Reason.SIGNATURE_INVALID),
        ({"inputs": []}, Reason.SIGNATURE_INVALID),
        ({"preview_digest": "sha256:" + "e" * 64}, Reason.SIGNATURE_INVALID),
        ({"approvals": {**APPROVALS.tree(), "protected": [".env", ".git/config"]}}, Reason.SIGNATURE_INVALID),
        ({"issued_at": OTHER_TIME}, Reason.SIGNATURE_INVALID),
        ({"expires_at": OTHER_TIME}, Reason.SIGNATURE_INVALID),
        ({"signature": "B" * 85 + "A"}, Reason.SIGNATURE_INVALID),
        ({"key_id": KERNEL.key_id}, Reason.KEY_UNKNOWN),
        ({"key_id": STRANGER.key_id}, Reason.KEY_UNKNOWN),
        ({"plan": plan("y").tree()}, Reason.BINDING_MISMATCH),
    ]
    for changes, reason in cases:
        with subtests.test(changes=changes, reason=reason):
            given = Envelope.from_tree({**envelope().tree(), **changes})
            assert refusal(given).reason is reason
            assert plan_error(reason).code in {1002, 1003}


def test_every_field_of_an_envelope_is_covered() -> None:
    """The list above names them all; whoever adds one finds it missing here."""
    changed = {"envelope_id", "config_digest", "plan_digest", "plan", "inputs", "approvals", "issued_at", "expires_at"}
    assert set(Envelope.model_fields) == changed | {"preview_digest", "signature", "key_id", "status"}


@pytest.mark.req("PX-01")
@pytest.mark.parametrize("status", ["PENDING", "REJECTED", "approved", "", None, True])
def test_what_is_not_approved_is_no_envelope(status: object) -> None:
    with pytest.raises(RefusedError) as refused:
        Envelope.from_tree({**envelope().tree(), "status": status})
    assert refused.value.reason is Reason.MALFORMED


@pytest.mark.req("PX-02")
def test_every_byte_of_the_plan_counts() -> None:
    raw = envelope().canonical()
    at = raw.index(b'"content":"x"') + len(b'"content":"')
    changed = Envelope.parse(raw[:at] + b"y" + raw[at + 1 :])
    refused = refusal(changed)
    assert (refused.reason, refused.where) == (Reason.BINDING_MISMATCH, "envelope, plan")
    assert "changed since" in refused.what
    assert digest_of_envelope(changed) == digest_of_envelope(Envelope.parse(raw)), "which approval it is, no more"


@pytest.mark.req("PX-02")
def test_another_configuration_voids_the_approval() -> None:
    refused = refusal(envelope(), config="sha256:" + "d" * 64)
    assert (refused.reason, refused.where) == (Reason.BINDING_MISMATCH, "envelope, config_digest")


@pytest.mark.req("PX-02")
@pytest.mark.parametrize(
    "after, reason",
    [
        (timedelta(0), None),
        (DEFAULT_LIFE - timedelta(microseconds=1), None),
        (DEFAULT_LIFE, Reason.EXPIRED),
        (MAX_LIFE, Reason.EXPIRED),
        (timedelta(seconds=-30), None),
        (timedelta(seconds=-30, microseconds=-1), Reason.NOT_YET_VALID),
    ],
)
def test_an_approval_has_a_time(after: timedelta, reason: Reason | None) -> None:
    given = envelope()
    if reason is None:
        verify_envelope(given, CONFIG, KEYRING, NOW + after, plan_digest=given.plan.digest())
    else:
        assert refusal(given, NOW + after).reason is reason


@pytest.mark.parametrize("life", [timedelta(0), timedelta(seconds=-1), MAX_LIFE + timedelta(microseconds=1)])
def test_no_longer_life_is_given(life: timedelta) -> None:
    with pytest.raises(RefusedError, match="7 days"):
        envelope(life=life)


def test_a_longer_life_is_not_believed_though_it_was_signed() -> None:
    assert refusal(signed(expires_at=render_time(NOW + MAX_LIFE + timedelta(seconds=1)))).reason is Reason.EXPIRED
    longest = envelope(life=MAX_LIFE)
    approved = verify_envelope(longest, CONFIG, KEYRING, NOW, plan_digest=longest.plan.digest())
    assert approved.expires_at == NOW + MAX_LIFE


def test_the_signature_is_looked_at_before_anything_else() -> None:
    forged = Envelope.from_tree({**envelope(STRANGER).tree(), "key_id": PROTOCOL.key_id, "plan": plan("y").tree()})
    assert refusal(forged, NOW + MAX_LIFE, config="sha256:" + "d" * 64).reason is Reason.SIGNATURE_INVALID


@pytest.mark.req("PX-02")
def test_a_retired_key_verifies_what_it_signed_before_and_a_revoked_key_verifies_nothing() -> None:
    def ring(**states: str) -> Keyring:
        return Keyring([PublicKey("protocol", PROTOCOL.public, CREATED, **states)])

    given = envelope()
    digest = given.plan.digest()
    verify_envelope(given, CONFIG, ring(retired_at="2026-03-01T12:00:01Z"), NOW, plan_digest=digest)
    assert refusal(given, keyring=ring(retired_at="2026-03-01T11:59:59Z")).reason is Reason.KEY_RETIRED
    assert refusal(given, keyring=ring(revoked_at="2026-03-01T12:00:01Z")).reason is Reason.REVOKED


def test_no_other_role_signs_an_approval() -> None:
    with pytest.raises(UsageError):
        envelope(KERNEL)


def test_each_approval_is_one_of_its_own() -> None:
    first, second = envelope(), envelope()
    assert first.envelope_id != second.envelope_id
    assert digest_of_envelope(first) != digest_of_envelope(second)
