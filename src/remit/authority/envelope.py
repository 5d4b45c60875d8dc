"""Envelopes: the protocol layer's signed approval of one exact plan, on files as they were looked at.

`issue_envelope` needs the protocol layer's private key; `verify_envelope` needs only the public one and is pure. The
plan is signed by its digest: a plan of five megabytes is brought into canonical form once, and whoever verifies has to
say what he found. An `ApprovedPlan` is what comes out of verification: effects take it, never an `Envelope`, so a
skipped check does not type-check.
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
_APPROVE_AGAIN: Final = "Look at the plan again, with `remit preview`, and approve it again."


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """A plan whose approval was verified. Made by `verify_envelope` and nothing else."""

    envelope: Envelope
    digest: str
    """Of the envelope, see `digest_of_envelope`."""
    expires_at: datetime


def issue_envelope(
    signer: Signer,
    plan: Plan,
    config_digest: str,
    inputs: Sequence[ApprovedInput],
    approvals: Approvals,
    now: datetime,
    life: timedelta = DEFAULT_LIFE,
) -> Envelope:
    """Sign the approval of a plan. The protocol layer's side."""
    if not timedelta(0) < life <= MAX_LIFE:
        raise RefusedError(
            Reason.TOO_LARGE,
            f"an approval lives between a second and {MAX_LIFE.days} days",
            next_step="Ask for a shorter life; a plan can be approved again.",
        )
    draft = Envelope(
        envelope_id=uuid7(now),
        status="APPROVED",
        plan=plan,
        config_digest=config_digest,
        plan_digest=plan.digest(),
        inputs=tuple(sorted(inputs, key=lambda item: item.path)),
        approvals=approvals,
        issued_at=render_time(now),
        expires_at=render_time(now + life),
        key_id=signer.key_id,
        signature="A" * 86,
    )
    return draft.model_copy(update={"signature": signer.sign("envelope", signed_body(draft))})


def signed_body(envelope: Envelope) -> bytes:
    """What the protocol layer signs: every field but the signature and the plan, for which its digest stands."""
    return envelope.canonical(without=_UNSIGNED)


def digest_of_envelope(envelope: Envelope) -> str:
    """The signature and all that it covers: which approval this is. It says nothing before the approval is verified."""
    return digest_bytes(envelope.canonical(without=frozenset({"plan"})))


def verify_envelope(
    envelope: Envelope, config_digest: str, keyring: Keyring, now: datetime, *, plan_digest: str
) -> ApprovedPlan:
    """Signature, then plan, configuration and time, in that order; the first failure ends it.

    The signature comes first so that nothing unsigned is believed, not even for the choice of an error message.
    `plan_digest` is the plan's own, as the caller found it; what the envelope says of it is only compared.
    """
    keyring.verify("envelope", envelope.key_id, signed_body(envelope), envelope.signature, signed_at=envelope.issued_at)
    if envelope.plan_digest != plan_digest:
        raise _mismatch("the plan is not the one that was approved: it was changed since", "plan")
    if envelope.config_digest != config_digest:
        raise _mismatch("the configuration was changed since the plan was approved", "config_digest")
    expires_at = _require_in_time(envelope, now)
    return ApprovedPlan(envelope, digest_of_envelope(envelope), expires_at)


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
            f"the approval would live longer than {MAX_LIFE.days} days, and none may",
            where="envelope, expires_at",
            next_step=_APPROVE_AGAIN,
        )
    return expires_at


def _mismatch(what: str, field: str) -> RefusedError:
    return RefusedError(Reason.BINDING_MISMATCH, what, where=f"envelope, {field}", next_step=_APPROVE_AGAIN)
