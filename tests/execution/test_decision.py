"""The kernel grants leases and judges results. It reports the rule that a result breaks."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from remit.authority.lease import verify_lease
from remit.authority.results import UNKNOWN_EXECUTOR, sign_failure, sign_success
from remit.contracts.tasks.result import ExecutionError, ExecutionResult, NoEffectOutput
from remit.contracts.tasks.task import TaskManifest
from remit.core.errors import Reason, RefusedError
from remit.core.ids import render_time, system_clock
from remit.crypto.keyring import create_keys, load_keyring, load_signer, rotate_key
from remit.tasks.kernel import Kernel

ASKED = {"task_id": "t", "capability_id": "NO_EFFECT", "inputs": {}, "constraints": {"reversible": True}}
MANIFEST = json.dumps(ASKED).encode()
EXECUTOR = "remit.no-effect"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    create_keys(tmp_path / "keys", system_clock)
    return tmp_path / "keys"


@pytest.fixture
def kernel(keys: Path) -> Kernel:
    executors = {"NO_EFFECT": EXECUTOR}
    return Kernel(
        lambda: load_signer(keys, "kernel"),
        lambda: load_keyring(keys),
        lambda capability_id: executors.get(capability_id, UNKNOWN_EXECUTOR),
        system_clock,
    )


def success(keys: Path, task_id: str = "t", executor_id: str = EXECUTOR) -> ExecutionResult:
    output = NoEffectOutput(task_id=task_id, capability_id="NO_EFFECT")
    return sign_success(load_signer(keys, "executor"), executor_id, task_id, "NO_EFFECT", output)


def refusal(kernel: Kernel, result: Any) -> RefusedError:
    raw = result.canonical() if isinstance(result, ExecutionResult) else json.dumps(result).encode()
    with pytest.raises(RefusedError) as refused:
        kernel.accept(raw, MANIFEST)
    return refused.value


@pytest.mark.req("EI-05")
def test_a_result_that_the_executor_signed_is_accepted_whether_success_or_failure(kernel: Kernel, keys: Path) -> None:
    assert kernel.accept(success(keys).canonical(), MANIFEST).status == "SUCCESS"
    error = ExecutionError(error_code="EXECUTION_FAILED", message="no")
    failed = sign_failure(load_signer(keys, "executor"), EXECUTOR, "t", "NO_EFFECT", error)
    assert kernel.accept(failed.canonical(), MANIFEST).status == "FAILURE"


@pytest.mark.req("EI-05")
@pytest.mark.parametrize("signature", [None, "", "absent"])
def test_an_unsigned_result_is_reported_as_unsigned(kernel: Kernel, keys: Path, signature: str | None) -> None:
    tree = success(keys).tree() | {"signature": signature}
    if signature == "absent":
        del tree["signature"]
    problem = refusal(kernel, tree)
    assert (problem.reason, problem.what) == (Reason.SIGNATURE_INVALID, "the result is not signed")


@pytest.mark.req("EI-05")
@pytest.mark.parametrize("change", [{"executor_id": "x"}, {"signature": "A" * 86}, {"status": "FAILURE"}])
def test_an_altered_result_is_reported_as_altered(kernel: Kernel, keys: Path, change: dict[str, Any]) -> None:
    if "status" in change:
        change |= {"output": None, "error": {"error_code": "EXECUTION_FAILED", "message": "no"}}
    problem = refusal(kernel, success(keys).tree() | change)
    assert problem.reason is Reason.SIGNATURE_INVALID
    assert "does not match" in problem.what


@pytest.mark.req("EI-05", "EI-17")
def test_a_result_signed_with_an_unregistered_key_is_reported_as_foreign(
    kernel: Kernel, keys: Path, tmp_path: Path
) -> None:
    create_keys(tmp_path / "others", system_clock)
    assert refusal(kernel, success(tmp_path / "others")).reason is Reason.KEY_UNKNOWN
    kernel_key = load_signer(keys, "kernel").key_id
    assert refusal(kernel, success(keys).tree() | {"key_id": kernel_key}).reason is Reason.KEY_UNKNOWN


@pytest.mark.req("EI-05")
@pytest.mark.parametrize(
    "of, named",
    [({"task_id": "another"}, "task_id"), ({"executor_id": "remit.file"}, "executor_id")],
)
def test_a_valid_result_of_another_task_or_executor_is_reported_as_such(
    kernel: Kernel, keys: Path, of: dict[str, str], named: str
) -> None:
    problem = refusal(kernel, success(keys, **of))
    assert problem.reason is Reason.BINDING_MISMATCH
    assert f"another {named}" in problem.what


@pytest.mark.req("EI-05")
def test_a_valid_result_of_another_capability_is_reported_as_such(kernel: Kernel, keys: Path) -> None:
    other = json.dumps(ASKED | {"capability_id": "SOMETHING"}).encode()
    with pytest.raises(RefusedError, match="another capability_id"):
        kernel.accept(success(keys).canonical(), other)


@pytest.mark.req("EI-05")
def test_a_retired_key_verifies_earlier_signatures_and_a_revoked_key_verifies_none(kernel: Kernel, keys: Path) -> None:
    result = success(keys).canonical()
    came = render_time(system_clock())
    rotate_key(keys, "executor", system_clock)
    assert kernel.accept(result, MANIFEST, at=came).status == "SUCCESS"
    with pytest.raises(RefusedError) as late:
        kernel.accept(result, MANIFEST)
    assert late.value.reason is Reason.KEY_RETIRED
    newer = success(keys).canonical()
    rotate_key(keys, "executor", system_clock, revoke=True)
    with pytest.raises(RefusedError) as revoked:
        kernel.accept(newer, MANIFEST, at=came)
    assert revoked.value.reason is Reason.REVOKED


@pytest.mark.req("EI-07", "EI-17")
def test_a_lease_is_for_the_executor_of_the_capability_and_verified_with_the_public_key_alone(
    kernel: Kernel, keys: Path
) -> None:
    manifest = TaskManifest.parse(MANIFEST)
    lease = kernel.issue_lease(manifest, timedelta(minutes=1))
    public_keys = load_keyring(keys)
    assert verify_lease(lease, manifest, public_keys, EXECUTOR, system_clock()).executor_id == EXECUTOR
    with pytest.raises(RefusedError):
        verify_lease(lease, manifest, public_keys, "remit.file", system_clock())
