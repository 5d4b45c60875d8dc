"""Who grants one task to one executor, and believes the answer only if that executor signed it.

Knows executors by name and public key alone: a new one is registered, and nothing here changes.
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
    """Holds the kernel's private key, asked for at each lease, and everybody's public ones."""

    signer: Callable[[], Signer]
    keyring: Callable[[], Keyring]
    executors: Callable[[str], str]
    """Which executor answers for a capability."""
    clock: Clock

    def issue_lease(self, manifest: TaskManifest, life: timedelta) -> LeaseToken:
        """Leave to run exactly this manifest, once, on the executor of its capability."""
        return issue_lease(self.signer(), manifest, self.executors(manifest.capability_id), self.clock(), life)

    def accept(self, result: bytes, manifest: bytes, *, at: str | None = None) -> ExecutionResult:
        """Return a result only if the registered executor signed exactly this for exactly this task.

        Limit: an executor in the sandbox and the same executor without one are the same. The `executor_id` of the
        result says which it was.

        Args:
            result: The bytes of the signed result.
            manifest: The task manifest.
            at: The time at which the result arrived; now if None. A key that was retired since verifies a result that
                arrived before.

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
            next_step="Do not rely on it; ask whoever handed it over where it comes from.",
        )


def _require_signed(raw: bytes) -> None:
    """Said before anything else that may be wrong with it: what nobody signed is not worth reading."""
    tree = parse_json(raw, ExecutionResult.bounds, source="result")
    if not isinstance(tree, dict) or not tree.get("signature"):
        raise RefusedError(
            Reason.SIGNATURE_INVALID,
            "the result is not signed",
            where="result, signature",
            next_step="Only what an executor's host signed counts as a result.",
        )
