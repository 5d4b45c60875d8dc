"""Signed results of tasks and of governed functions. An unsigned or altered result is refused."""

from collections.abc import Mapping
from typing import Any, Final

from remit.contracts.base import Contract
from remit.contracts.calls.call import CallResult
from remit.contracts.tasks.result import ExecutionError, ExecutionResult
from remit.crypto.signing import Keyring, Signer

UNKNOWN_EXECUTOR: Final = "remit.unregistered"
"""The executor id in the result of a task whose capability no executor offers."""
UNCONFINED: Final = "+unsafe-none"
"""The end of an executor's id if the Linux kernel did not confine its effects."""

_UNSIGNED: Final = frozenset({"signature"})


def sign_success(
    signer: Signer, executor_id: str, task_id: str, capability_id: str, output: Contract
) -> ExecutionResult:
    return _sign(
        signer,
        {
            "status": "SUCCESS",
            "output": output.tree(),
            "error": None,
            "task_id": task_id,
            "capability_id": capability_id,
            "executor_id": executor_id,
            "key_id": signer.key_id,
        },
    )


def sign_failure(
    signer: Signer, executor_id: str, task_id: str, capability_id: str, error: ExecutionError
) -> ExecutionResult:
    return _sign(
        signer,
        {
            "status": "FAILURE",
            "output": None,
            "error": error.tree(),
            "task_id": task_id,
            "capability_id": capability_id,
            "executor_id": executor_id,
            "key_id": signer.key_id,
        },
    )


def verify_result(result: ExecutionResult, keyring: Keyring, at: str) -> None:
    """Return if a registered executor key signed exactly this; otherwise refuse and say which rule failed."""
    body = result.canonical(without=_UNSIGNED)
    keyring.verify("result", result.key_id, body, result.signature, signed_at=at)


def sign_call_result(signer: Signer, unsigned: Mapping[str, Any]) -> CallResult:
    """Sign the result of a call. `unsigned` has all fields except the key id and the signature."""
    draft = CallResult.from_tree({**unsigned, "key_id": signer.key_id, "signature": "A" * 86})
    body = draft.canonical(without=_UNSIGNED)
    return draft.model_copy(update={"signature": signer.sign("call-result", body)})


def verify_call_result(result: CallResult, keyring: Keyring, at: str) -> None:
    """Return if a registered executor key signed exactly this; otherwise refuse and say which rule failed."""
    body = result.canonical(without=_UNSIGNED)
    keyring.verify("call-result", result.key_id, body, result.signature, signed_at=at)


def _sign(signer: Signer, unsigned: dict[str, object]) -> ExecutionResult:
    draft = ExecutionResult.from_tree({**unsigned, "signature": "A" * 86})
    return draft.model_copy(update={"signature": signer.sign("result", draft.canonical(without=_UNSIGNED))})
