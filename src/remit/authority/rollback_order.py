"""Rollback orders: the protocol layer's signed permission to roll back the run of a plan, once and within minutes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from remit.authority.lease import CLOCK_SKEW
from remit.contracts.plans.rollback import RollbackOrder
from remit.core.errors import Reason, RefusedError
from remit.core.ids import parse_time, render_time
from remit.crypto.signing import Keyring, Signer

LIFE: Final = timedelta(minutes=5)

_UNSIGNED: Final = frozenset({"signature"})
_AGAIN: Final = "Run `remit rollback` again."


@dataclass(frozen=True, slots=True)
class AllowedRollback:
    """A verified order. Only `verify_rollback` makes one."""

    order: RollbackOrder
    digest: str
    expires_at: datetime


def rollback_key(manifest_id: str, attempt: int) -> str:
    """Return the id of an order and of its claim. Two callers at the same time get the same id."""
    return f"rollback-{manifest_id}-{attempt}"


def issue_rollback(  # noqa: PLR0913 - an order has these parts
    signer: Signer,
    envelope_id: str,
    manifest_id: str,
    attempt: int,
    checkpoints: Sequence[str],
    now: datetime,
    *,
    force: bool,
    drift: str | None = None,
) -> RollbackOrder:
    """Sign an order. Without checkpoints it covers all that are left."""
    draft = RollbackOrder(
        order_id=rollback_key(manifest_id, attempt),
        envelope_id=envelope_id,
        manifest_id=manifest_id,
        attempt=attempt,
        checkpoints=tuple(checkpoints),
        force=force,
        drift=drift,
        issued_at=render_time(now),
        expires_at=render_time(now + LIFE),
        key_id=signer.key_id,
        signature="A" * 86,
    )
    body = draft.canonical(without=_UNSIGNED)
    return draft.model_copy(update={"signature": signer.sign("rollback-order", body)})


def verify_rollback(order: RollbackOrder, keyring: Keyring, now: datetime) -> AllowedRollback:
    """Return the verified order. Checks signature, id and times, in that order. The first failure raises."""
    body = order.canonical(without=_UNSIGNED)
    keyring.verify("rollback-order", order.key_id, body, order.signature, signed_at=order.issued_at)
    if order.attempt < 1 or order.order_id != rollback_key(order.manifest_id, order.attempt):
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            "the id of the rollback order does not match its manifest and attempt",
            where="rollback order, order_id",
            next_step=_AGAIN,
        )
    issued_at, expires_at = parse_time(order.issued_at), parse_time(order.expires_at)
    if now >= expires_at or expires_at - issued_at > LIFE:
        raise RefusedError(
            Reason.EXPIRED,
            f"the rollback order expired at {order.expires_at}, or is valid for over {LIFE.seconds // 60} minutes",
            where="rollback order, expires_at",
            next_step=_AGAIN,
        )
    if issued_at > now + CLOCK_SKEW:
        raise RefusedError(
            Reason.NOT_YET_VALID,
            f"the rollback order was issued in the future, at {order.issued_at}",
            where="rollback order, issued_at",
            next_step="Set the clocks of the protocol layer and of this machine.",
        )
    return AllowedRollback(order, order.digest(), expires_at)
