"""A no-effect request, from bytes to a signed outcome in the ledger, on both databases."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from remit.authority.results import verify_result
from remit.contracts.tasks.result import ExecutionResult
from remit.contracts.tasks.task import TaskManifest
from remit.core.errors import Reason, RefusedError, UsageError
from remit.core.ids import render_time
from remit.execution.engine import Preview
from remit.workspace.workspace import Workspace
from tests.support.task_workspace import MovableClock, file_task, manifest, run
from tests.tasks.declared_capabilities import register


def code(result: ExecutionResult) -> str:
    assert result.error is not None
    assert result.output is None
    return result.error.error_code


def now(workspace: Workspace) -> str:
    return render_time(workspace.clock())


@pytest.mark.req("EI-04", "EI-14")
def test_a_leased_task_runs_and_every_step_is_in_the_ledger(
    workspace: Workspace, kinds: Callable[[], list[str]]
) -> None:
    result = workspace.execute_task(manifest(), workspace.issue_lease(manifest()).canonical())
    assert result.status == "SUCCESS"
    verify_result(result, workspace.keyring, now(workspace))
    assert kinds() == ["workspace.created", "lease.issued", "task.intent", "task.outcome"]
    with workspace.store.reading() as connection:
        effects = list(
            connection.rows("SELECT task_id, capability_id FROM ledger_entries WHERE kind = ?", ("task.outcome",))
        )
    assert effects == [("task-1", "NO_EFFECT")]
    assert workspace.verify_ledger().holds


def test_a_repeat_returns_the_first_result_byte_for_byte(workspace: Workspace, kinds: Callable[[], list[str]]) -> None:
    lease = workspace.issue_lease(manifest()).canonical()
    first = workspace.execute_task(manifest(), lease)
    second = workspace.execute_task(manifest(), workspace.issue_lease(manifest()).canonical())
    assert second.canonical() == first.canonical()
    assert kinds().count("task.intent") == 1


def test_the_lease_is_checked_on_a_repeat_too(workspace: Workspace, clock: MovableClock) -> None:
    lease = workspace.issue_lease(manifest()).canonical()
    assert workspace.execute_task(manifest(), lease).status == "SUCCESS"
    clock.offset = timedelta(hours=2)
    assert code(workspace.execute_task(manifest(), lease)) == "LEASE_EXPIRED"


@pytest.mark.req("EI-06")
def test_an_expired_lease_is_refused_before_the_capability_is_looked_up(
    workspace: Workspace, clock: MovableClock
) -> None:
    asked = manifest("task-7", "NOBODY_CAN")
    lease = workspace.issue_lease(asked).canonical()
    assert code(workspace.execute_task(asked, lease)) == "UNSUPPORTED_CAPABILITY"
    clock.offset = timedelta(hours=2)
    assert code(workspace.execute_task(asked, lease)) == "LEASE_EXPIRED"


def test_a_task_id_used_for_another_manifest_is_refused(workspace: Workspace) -> None:
    workspace.execute_task(manifest(), workspace.issue_lease(manifest()).canonical())
    other = manifest(constraints={"reversible": False})
    result = workspace.execute_task(other, workspace.issue_lease(other).canonical())
    assert code(result) == "EXECUTION_FAILED"
    assert result.error is not None
    assert "different request" in result.error.message


def test_a_refused_authority_claims_nothing_and_is_recorded(
    workspace: Workspace, kinds: Callable[[], list[str]]
) -> None:
    lease = workspace.issue_lease(manifest()).tree()
    forged = json.dumps({**lease, "expires_at": "2099-01-01T00:00:00Z"}).encode()
    refused = workspace.execute_task(manifest(), forged)
    assert code(refused) == "INVALID_LEASE"
    verify_result(refused, workspace.keyring, now(workspace))
    assert kinds()[-1] == "task.refused"
    assert workspace.execute_task(manifest(), json.dumps(lease).encode()).status == "SUCCESS"


@pytest.mark.parametrize("lease", [b"", b"{}", b"null", b"\xff", b"[" * 1000, b"a.b.c", b'{"lease_id": "x" "y"}'])
def test_a_lease_that_is_no_lease_is_an_invalid_lease(workspace: Workspace, lease: bytes) -> None:
    refused = workspace.execute_task(manifest(), lease)
    assert code(refused) == "INVALID_LEASE"
    verify_result(refused, workspace.keyring, now(workspace))


def test_bytes_that_cannot_be_parsed_touch_nothing(workspace: Workspace, kinds: Callable[[], list[str]]) -> None:
    before = kinds()
    with pytest.raises(RefusedError) as refused:
        workspace.execute_task(b'{"task_id": "x", "surprise": 1}', b"{}")
    assert refused.value.reason is Reason.MALFORMED
    assert kinds() == before


def test_a_dry_run_is_the_engine_stopped_after_the_preview(
    workspace: Workspace, kinds: Callable[[], list[str]]
) -> None:
    lease = workspace.issue_lease(manifest()).canonical()
    before = kinds()
    preview = workspace.preview_task(manifest(), lease)
    assert isinstance(preview, Preview)
    assert preview.digest == TaskManifest.parse(manifest()).digest()
    assert kinds() == before
    assert workspace.execute_task(manifest(), lease).status == "SUCCESS"


def test_a_dry_run_of_a_forged_lease_fails_and_records_nothing(
    workspace: Workspace, kinds: Callable[[], list[str]]
) -> None:
    lease = workspace.issue_lease(manifest("another-task")).canonical()
    before = kinds()
    with pytest.raises(RefusedError) as refused:
        workspace.preview_task(manifest(), lease)
    assert refused.value.reason is Reason.SIGNATURE_INVALID
    assert kinds() == before


@pytest.mark.req("EI-04")
def test_an_effect_that_throws_is_a_signed_stored_failure_without_its_secrets(workspace: Workspace, base: Path) -> None:
    register(workspace, "EXPLODE")
    asked = file_task("task-9", "EXPLODE", None, base / "made")
    first = run(workspace, asked)
    assert code(first) == "EXECUTION_FAILED"
    verify_result(first, workspace.keyring, now(workspace))
    assert b"hunter2" not in first.canonical()
    assert run(workspace, asked).canonical() == first.canonical()
    with workspace.store.reading() as connection:
        payloads = "".join(row[0] for row in connection.rows("SELECT payload FROM ledger_entries"))
    assert "hunter2" not in payloads


@pytest.mark.req("EI-05")
@pytest.mark.parametrize("change", ["status", "task_id", "capability_id", "output", "executor_id", "signature"])
def test_the_kernel_refuses_an_altered_result(workspace: Workspace, change: str) -> None:
    tree = workspace.execute_task(manifest(), workspace.issue_lease(manifest()).canonical()).tree()
    if change == "status":
        tree |= {"status": "FAILURE", "output": None, "error": {"error_code": "EXECUTION_FAILED", "message": "no"}}
    elif change == "task_id":
        tree |= {"task_id": "task-2", "output": {**tree["output"], "task_id": "task-2"}}
    elif change == "capability_id":
        tree |= {"capability_id": "OTHER"}
    elif change == "output":
        tree |= {"capability_id": "OTHER", "output": {"anything": 1}}
    elif change == "executor_id":
        tree |= {"executor_id": "somebody-else"}
    else:
        tree |= {"signature": tree["signature"][::-1][1:] + "A"}
    with pytest.raises(RefusedError) as refused:
        verify_result(ExecutionResult.from_tree(tree), workspace.keyring, now(workspace))
    assert refused.value.reason is Reason.SIGNATURE_INVALID


@pytest.mark.req("EI-05")
def test_the_kernel_refuses_an_unsigned_result_and_one_by_a_foreign_key(workspace: Workspace) -> None:
    tree = workspace.execute_task(manifest(), workspace.issue_lease(manifest()).canonical()).tree()
    with pytest.raises(RefusedError) as unsigned:
        ExecutionResult.from_tree({**tree, "signature": None})
    assert "signature" in unsigned.value.where
    kernel = next(key for key in workspace.keyring if key.role == "kernel")
    with pytest.raises(RefusedError) as foreign:
        verify_result(ExecutionResult.from_tree({**tree, "key_id": kernel.key_id}), workspace.keyring, now(workspace))
    assert foreign.value.reason is Reason.KEY_UNKNOWN


def test_a_capability_cannot_be_registered_twice(workspace: Workspace) -> None:
    known = workspace.registry.get("NO_EFFECT")
    assert known is not None
    with pytest.raises(UsageError):
        workspace.registry.register(known)
