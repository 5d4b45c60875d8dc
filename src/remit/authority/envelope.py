"""Envelopes: the protocol layer's signed approval of one exact plan, for the files as they were at the preview.

`issue_envelope` needs the protocol layer's private key. `verify_envelope` needs only the public key and is pure. The
signature covers the digest of the plan, so that a plan of five megabytes is brought into canonical form only once. The
caller of `verify_envelope` passes the digest that it computed itself. Verification returns an `ApprovedPlan`. Effects
accept that type and never an `Envelope`, so the type checker finds a skipped verification.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from remit.authority.lease import CLOCK_SKEW
from remit.contracts.plans.envelope import Approvals, ApprovedInput, Envelope
from remit.contracts.plans.plan import Plan
from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.core.ids import parse_time, render_time, uuid7
from remit.crypto.signing import Keyring, Signer

DEFAULT_LIFE: Final = timedelta(hours=1)
MAX_LIFE: Final = timedelta(days=7)

_UNSIGNED: Final = frozenset({"signature", "plan"})
_APPROVE_AGAIN: Final = "Preview the plan again with `remit preview`, and approve it again."


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """A plan with a verified approval. Only `verify_envelope` makes one."""

    envelope: Envelope
    digest: str
    """The digest of the envelope, see `digest_of_envelope`."""
    expires_at: datetime
    signed: bytes
    """The bytes that the protocol layer signed. The envelope cannot change, so they are computed once."""


def issue_envelope(  # noqa: PLR0913 - what is signed, each by its name
    signer: Signer,
    plan: Plan,
    config_digest: str,
    inputs: Sequence[ApprovedInput],
    approvals: Approvals,
    now: datetime,
    life: timedelta = DEFAULT_LIFE,
    *,
    preview_digest: str | None = None,
) -> Envelope:
    """Sign the approval of a plan, as the protocol layer. `preview_digest` names the stored preview that it is for."""
    if not timedelta(0) < life <= MAX_LIFE:
        raise RefusedError(
            Reason.TOO_LARGE,
            f"an approval must be valid for between one second and {MAX_LIFE.days} days",
            next_step="Choose a shorter lifetime. A plan can be approved again.",
        )
    draft = Envelope(
        envelope_id=uuid7(now),
        status="APPROVED",
        plan=plan,
        config_digest=config_digest,
        plan_digest=plan.digest(),
        inputs=tuple(sorted(inputs, key=lambda item: item.path)),
        approvals=approvals,
        preview_digest=preview_digest,
        issued_at=render_time(now),
        expires_at=render_time(now + life),
        key_id=signer.key_id,
        signature="A" * 86,
    )
    return draft.model_copy(update={"signature": signer.sign("envelope", signed_body(draft))})


def signed_body(envelope: Envelope) -> bytes:
    """Return the bytes that the protocol layer signs: every field except the signature and the plan.

    The digest of the plan is one of the fields.
    """
    return envelope.canonical(without=_UNSIGNED)


def digest_of_envelope(envelope: Envelope) -> str:
    """Return the digest of the signature and all that it covers. It identifies the approval, once that is verified."""
    return digest_bytes(envelope.canonical(without=frozenset({"plan"})))


def verify_envelope(
    envelope: Envelope, config_digest: str, keyring: Keyring, now: datetime, *, plan_digest: str
) -> ApprovedPlan:
    """Return the approved plan.

    Checks signature, plan, configuration and time, in that order. The first failure raises. The signature is checked
    first, so that nothing unsigned is believed, not even to choose an error message.
    `plan_digest` is the digest that the caller computed from the plan. The envelope's own value is only compared to it.
    """
    signed = signed_body(envelope)
    expires_at = _verify(envelope, signed, config_digest, keyring, now, plan_digest)
    return ApprovedPlan(envelope, digest_of_envelope(envelope), expires_at, signed)


def verify_again(granted: ApprovedPlan, config_digest: str, keyring: Keyring, now: datetime) -> None:
    """Check what may have changed since the verification: the key, the configuration and the time.

    Raises what `verify_envelope` raises. The signature is verified again too, over the same bytes.
    """
    envelope = granted.envelope
    _verify(envelope, granted.signed, config_digest, keyring, now, envelope.plan_digest)


def _verify(
    envelope: Envelope, signed: bytes, config_digest: str, keyring: Keyring, now: datetime, plan_digest: str
) -> datetime:
    keyring.verify("envelope", envelope.key_id, signed, envelope.signature, signed_at=envelope.issued_at)
    if envelope.plan_digest != plan_digest:
        raise _mismatch("the plan was changed since it was approved", "plan")
    if envelope.config_digest != config_digest:
        raise _mismatch("the configuration was changed since the plan was approved", "config_digest")
    return _require_in_time(envelope, now)


def _require_in_time(envelope: Envelope, now: datetime) -> datetime:
    issued_at, expires_at = parse_time(envelope.issued_at), parse_time(envelope.expires_at)
    if now >= expires_at:
        raise RefusedError(
            Reason.EXPIRED,
            f"the approval expired at {envelope.expires_at}",
            where="envelope, expires_at",
            next_step=_APPROVE_AGAIN,
        )
    if issued_at > now + CLOCK_SKEW:
        raise RefusedError(
            Reason.NOT_YET_VALID,
            f"the approval was issued in the future, at {envelope.issued_at}",
            where="envelope, issued_at",
            next_step="Set the clocks of the protocol layer and of this machine.",
        )
    if expires_at - issued_at > MAX_LIFE:
        raise RefusedError(
            Reason.EXPIRED,
            f"the approval is valid for more than {MAX_LIFE.days} days, which is not allowed",
            where="envelope, expires_at",
            next_step=_APPROVE_AGAIN,
        )
    return expires_at


def _mismatch(what: str, field: str) -> RefusedError:
    return RefusedError(Reason.BINDING_MISMATCH, what, where=f"envelope, {field}", next_step=_APPROVE_AGAIN)
