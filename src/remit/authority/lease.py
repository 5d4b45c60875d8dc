"""Leases: the kernel's signed permission to run one task, once, within minutes, on one executor.

`issue_lease` needs the kernel's private key. `verify_lease` needs only the public key and is pure. The signature covers
the fields of the lease and the digest of its manifest. That digest is not a field: a verifier has the manifest, and a
manifest that differs by one byte does not match. Verification returns a `Lease`. Effects accept that type and never a
`LeaseToken`, so the type checker finds a skipped verification.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from remit.contracts.tasks.task import LeaseToken, TaskManifest
from remit.core.canonical import canonical_bytes
from remit.core.errors import Reason, RefusedError
from remit.core.ids import parse_time, render_time, uuid7
from remit.crypto.signing import Keyring, Signer

MAX_LIFE: Final = timedelta(hours=1)
CLOCK_SKEW: Final = timedelta(seconds=30)
"""How far ahead the kernel's clock may be. Expiry has no such tolerance."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that was verified for this task. Only `verify_lease` makes one."""

    lease_id: str
    task_id: str
    capability_id: str
    executor_id: str
    expires_at: datetime
    key_id: str


def issue_lease(signer: Signer, manifest: TaskManifest, executor_id: str, now: datetime, life: timedelta) -> LeaseToken:
    """Sign a lease for one task, as the kernel."""
    if not timedelta(0) < life <= MAX_LIFE:
        raise RefusedError(
            Reason.TOO_LARGE,
            f"a lease must be valid for between one second and {MAX_LIFE} (h:mm:ss)",
            next_step="Choose a shorter lifetime. A lease can be issued again.",
        )
    unsigned = {
        "lease_id": uuid7(now),
        "task_id": manifest.task_id,
        "capability_id": manifest.capability_id,
        "executor_id": executor_id,
        "issued_at": render_time(now),
        "expires_at": render_time(now + life),
        "key_id": signer.key_id,
    }
    draft = LeaseToken.from_tree({**unsigned, "signature": "A" * 86})
    return draft.model_copy(update={"signature": signer.sign("lease", signed_body(draft, manifest.digest()))})


def signed_body(token: LeaseToken, manifest_digest: str) -> bytes:
    """Return the bytes that the kernel signs: the lease's fields except the signature, and the manifest's digest."""
    fields = {name: value for name, value in token.tree().items() if name != "signature"}
    return canonical_bytes({**fields, "manifest_digest": manifest_digest})


def parse_lease(raw: bytes) -> LeaseToken:
    """Parse a lease, which is not verified yet.

    Bytes that are not a lease are refused as bad authority and not as a bad request.
    """
    try:
        return LeaseToken.parse(raw, source="lease")
    except RefusedError as problem:
        raise RefusedError(
            Reason.AUTHORITY_MALFORMED, problem.what, where=problem.where, next_step="Ask the kernel for a lease."
        ) from None


def verify_lease(
    token: LeaseToken, manifest: TaskManifest, keyring: Keyring, executor_id: str, now: datetime, *, digest: str = ""
) -> Lease:
    """Return the verified lease. Checks signature, task and times first, in that order; the first failure raises.

    The signature is checked first, so that nothing unsigned is believed, not even to choose an error message.
    `digest` is the digest of the manifest, if the caller has it.
    """
    body = signed_body(token, digest or manifest.digest())
    keyring.verify("lease", token.key_id, body, token.signature, signed_at=token.issued_at)
    _require_same(token.task_id, manifest.task_id, "task_id")
    issued_at, expires_at = parse_time(token.issued_at), parse_time(token.expires_at)
    if now >= expires_at:
        raise RefusedError(
            Reason.EXPIRED,
            f"the lease expired at {token.expires_at}",
            where="lease, expires_at",
            next_step="Ask the kernel for a new lease.",
        )
    if issued_at > now + CLOCK_SKEW:
        raise RefusedError(
            Reason.NOT_YET_VALID,
            f"the lease was issued in the future, at {token.issued_at}",
            where="lease, issued_at",
            next_step="Set the clocks of the kernel and of this machine.",
        )
    if expires_at - issued_at > MAX_LIFE:
        raise RefusedError(
            Reason.BINDING_MISMATCH, f"the lease is valid for more than {MAX_LIFE} (h:mm:ss)", where="lease, expires_at"
        )
    _require_same(token.capability_id, manifest.capability_id, "capability_id")
    _require_same(token.executor_id, executor_id, "executor_id")
    return Lease(token.lease_id, token.task_id, token.capability_id, token.executor_id, expires_at, token.key_id)


def _require_same(leased: str, expected: str, field: str) -> None:
    if leased != expected:
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            f"the lease is for another {field}: {leased!r}, not {expected!r}",
            where=f"lease, {field}",
            next_step="Ask the kernel for a lease of this task.",
        )
