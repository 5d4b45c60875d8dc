"""Signed results of governed functions. An unsigned or altered result is no result."""

from collections.abc import Mapping
from typing import Any, Final

from remit.contracts.calls.call import CallResult
from remit.crypto.signing import Keyring, Signer

_UNSIGNED: Final = frozenset({"signature"})


def sign_call(signer: Signer, unsigned: Mapping[str, Any]) -> CallResult:
    """All fields but the key's id and the signature are given."""
    draft = CallResult.from_tree({**unsigned, "key_id": signer.key_id, "signature": "A" * 86})
    body = draft.canonical(without=_UNSIGNED)
    return draft.model_copy(update={"signature": signer.sign("call-result", body)})


def verify_call(result: CallResult, keyring: Keyring, at: str) -> None:
    """Return if a registered executor key signed exactly this; otherwise refuse and say which rule failed."""
    body = result.canonical(without=_UNSIGNED)
    keyring.verify("call-result", result.key_id, body, result.signature, signed_at=at)
