"""Signed outcomes of plans and rollbacks, made by the executor's host. An unsigned or altered status is refused."""

from collections.abc import Mapping
from typing import Any, Final

from remit.contracts.plans.outcome import RollbackOutcome
from remit.contracts.plans.status import CompletionStatus
from remit.crypto.signing import Keyring, Signer

_UNSIGNED: Final = frozenset({"signature"})


def sign_status(signer: Signer, unsigned: Mapping[str, Any]) -> CompletionStatus:
    """Sign the status of a plan. `unsigned` has all fields except the key id and the signature."""
    draft = CompletionStatus.from_tree(_draft(signer, unsigned))
    body = draft.canonical(without=_UNSIGNED)
    return draft.model_copy(update={"signature": signer.sign("plan-status", body)})


def verify_status(status: CompletionStatus, keyring: Keyring) -> None:
    """Return if a registered executor key signed exactly this; otherwise refuse and say which rule failed."""
    body = status.canonical(without=_UNSIGNED)
    keyring.verify("plan-status", status.key_id, body, status.signature, signed_at=status.completed_at)


def sign_rollback_outcome(signer: Signer, unsigned: Mapping[str, Any]) -> RollbackOutcome:
    """Sign the outcome of a rollback. `unsigned` has all fields except the key id and the signature."""
    draft = RollbackOutcome.from_tree(_draft(signer, unsigned))
    body = draft.canonical(without=_UNSIGNED)
    return draft.model_copy(update={"signature": signer.sign("rollback-outcome", body)})


def verify_rollback_outcome(outcome: RollbackOutcome, keyring: Keyring) -> None:
    """Return if a registered executor key signed exactly this; otherwise refuse and say which rule failed."""
    body = outcome.canonical(without=_UNSIGNED)
    keyring.verify("rollback-outcome", outcome.key_id, body, outcome.signature, signed_at=outcome.executed_at)


def _draft(signer: Signer, unsigned: Mapping[str, Any]) -> dict[str, Any]:
    return {**unsigned, "key_id": signer.key_id, "signature": "A" * 86}
