"""The kernel: it issues a lease for one task to one executor, and accepts only a result that this executor signed.

It knows executors only by name and public key, so a new executor needs no change here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from remit.authority.lease import issue_lease
from remit.authority.results import UNCONFINED, verify_result
from remit.contracts.tasks.result import ExecutionResult
from remit.contracts.tasks.task import LeaseToken, TaskManifest
from remit.core.errors import Reason, RefusedError
from remit.core.ids import Clock, render_time
from remit.crypto.signing import Keyring, Signer
from remit.parsing import parse_json


@dataclass(frozen=True)
class Kernel:
    """The kernel's private key, which is loaded for each lease, and the public keys of the workspace."""

    signer: Callable[[], Signer]
    keyring: Callable[[], Keyring]
    executors: Callable[[str], str]
    """Returns the id of the executor that implements a capability."""
    clock: Clock

    def issue_lease(self, manifest: TaskManifest, life: timedelta) -> LeaseToken:
        """Sign the permission to run exactly this manifest, once, on the executor of its capability."""
        return issue_lease(self.signer(), manifest, self.executors(manifest.capability_id), self.clock(), life)

    def accept(self, result: bytes, manifest: bytes, *, at: str | None = None) -> ExecutionResult:
        """Return the result if the registered executor signed exactly this result for exactly this task.

        Limit: a result is accepted from the executor with a sandbox and without one. The `executor_id` of the result
        shows which it was.

        Args:
            result: The bytes of the signed result.
            manifest: The task manifest.
            at: The time at which the result arrived, or None for now. A key that was retired later still verifies the
                result.

        Returns:
            The verified result.

        Raises:
            RefusedError: The result is unsigned or altered, is of another executor, task or capability, or its key is
                unknown, retired or revoked.
        """
        _require_signed(result)
        parsed, expected = ExecutionResult.parse(result, source="result"), TaskManifest.parse(manifest)
        verify_result(parsed, self.keyring(), at or render_time(self.clock()))
        _require_same("task_id", parsed.task_id, expected.task_id)
        _require_same("capability_id", parsed.capability_id, expected.capability_id)
        registered = self.executors(expected.capability_id).removesuffix(UNCONFINED)
        _require_same("executor_id", parsed.executor_id.removesuffix(UNCONFINED), registered)
        return parsed


def _require_same(field: str, found: str, expected: str) -> None:
    if found != expected:
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            f"the result is of another {field}: {found!r}, not {expected!r}",
            where=f"result, {field}",
            next_step="Do not rely on this result. Find out where it comes from.",
        )


def _require_signed(raw: bytes) -> None:
    """Refuse an unsigned result before any other check, because the content of an unsigned result has no value."""
    tree = parse_json(raw, ExecutionResult.bounds, source="result")
    if not isinstance(tree, dict) or not tree.get("signature"):
        raise RefusedError(
            Reason.SIGNATURE_INVALID,
            "the result is not signed",
            where="result, signature",
            next_step="Use the result that the executor's host signed. Only a signed result is valid.",
        )
