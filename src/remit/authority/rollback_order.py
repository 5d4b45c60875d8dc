"""Rollback orders: the protocol layer's signed word to take back the run of a plan, once and now."""

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
_AGAIN: Final = "Ask again, with `remit rollback`."


@dataclass(frozen=True, slots=True)
class AllowedRollback:
    """An order that was verified. Made by `verify_rollback` and nothing else."""

    order: RollbackOrder
    digest: str
    expires_at: datetime


def rollback_key(manifest_id: str, attempt: int) -> str:
    """The id of an order, and of the claim on it: two who ask at once ask for the same."""
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
    """Sign an order. No checkpoint named: all that are left."""
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
    """Signature, then its id, then its time; the first failure ends it."""
    body = order.canonical(without=_UNSIGNED)
    keyring.verify("rollback-order", order.key_id, body, order.signature, signed_at=order.issued_at)
    if order.attempt < 1 or order.order_id != rollback_key(order.manifest_id, order.attempt):
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            "the order's id is not that of its manifest and attempt",
            where="rollback order, order_id",
            next_step=_AGAIN,
        )
    issued_at, expires_at = parse_time(order.issued_at), parse_time(order.expires_at)
    if now >= expires_at or expires_at - issued_at > LIFE:
        raise RefusedError(
            Reason.EXPIRED,
            f"the order expired at {order.expires_at}, and none lives longer than {LIFE.seconds // 60} minutes",
            where="rollback order, expires_at",
            next_step=_AGAIN,
        )
    if issued_at > now + CLOCK_SKEW:
        raise RefusedError(
            Reason.NOT_YET_VALID,
            f"the order was issued in the future, at {order.issued_at}",
            where="rollback order, issued_at",
            next_step="Set the clocks of the protocol layer and of this machine.",
        )
    return AllowedRollback(order, order.digest(), expires_at)
