"""Attacks of a security review against the engine and its records. Each of them once succeeded."""

import json
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.tasks.result import ExecutionResult
from remit.contracts.tasks.task import TaskManifest
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.ids import uuid7
from remit.ledger.entry import COLUMNS, Entry, NewEntry
from remit.ledger.findings import RecordFault
from remit.store.process_identity import is_dead, this_process
from remit.workspace.workspace import Workspace
from tests.support.child_process import run_child
from tests.support.task_workspace import VARIABLE, MovableClock, file_task, manifest, run, wait_for
from tests.tasks.declared_capabilities import register

MARKS = ", ".join("?" * len(Entry._fields))


def write(workspace: Workspace, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """Write to the database directly, without Remit. The triggers stay active."""
    connection = workspace.store.connect()
    connection.begin(write=True)
    for statement, values in statements:
        connection.execute(statement, values)
    connection.commit()
    connection.close()


def forged_entry(workspace: Workspace) -> Entry:
    with workspace.store.reading() as connection:
        row = connection.one(f"SELECT {COLUMNS} FROM ledger_entries ORDER BY seq DESC LIMIT 1")
    assert row is not None
    tip = Entry(*row)
    payload = '{"outcome":{"status":"SUCCESS"}}'
    entry = tip._replace(
        seq=tip.seq + 1, entry_id=uuid7(workspace.clock()), kind="x.forged", payload=payload, prev_hash=tip.hash
    )
    return entry._replace(hash=entry.expected_hash())


def test_an_entry_inserted_by_hand_is_never_covered_by_the_next_signature(workspace: Workspace) -> None:
    run(workspace, manifest())
    write(workspace, (f"INSERT INTO ledger_entries ({COLUMNS}) VALUES ({MARKS})", tuple(forged_entry(workspace))))
    with pytest.raises(EnvironmentFailureError) as refused:
        workspace.ledger.append(NewEntry("default", "x.y", "c", {}))
    assert refused.value.reason is Reason.EVIDENCE_INVALID
    with Workspace.open(workspace.root, environ=workspace.environ) as fresh:
        with pytest.raises(EnvironmentFailureError, match="no head signed"):
            fresh.ledger.append(NewEntry("default", "x.y", "c", {}))
        assert RecordFault.UNSIGNED_TAIL in {finding.fault for finding in fresh.verify_ledger().findings}


def test_a_planted_claim_is_reported_and_not_accepted(workspace: Workspace) -> None:
    asked = manifest("planted")
    result = run(workspace, manifest()).tree() | {"task_id": "planted", "signature": "A" * 86}
    result["output"]["task_id"] = "planted"
    digest = TaskManifest.parse(asked).digest()
    columns = (
        "tenant_id, scope, key, request_digest, correlation_id, checkpoint, owner, claim_token, claimed_at, state,"
        " result, outcome_seq"
    )
    values = ("default", "task", "planted", digest, "planted", "{}", "o", "t", "now", "DONE", json.dumps(result), 4)
    write(workspace, (f"INSERT INTO claims ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values))
    with pytest.raises(EnvironmentFailureError) as refused:
        run(workspace, asked)
    assert refused.value.reason is Reason.EVIDENCE_INVALID
    assert RecordFault.CLAIM_FORGED in {finding.fault for finding in workspace.verify_ledger().findings}


def test_a_stored_result_of_a_revoked_executor_is_not_returned_again(workspace: Workspace) -> None:
    run(workspace, manifest())
    workspace.rotate_key("executor", revoke=True)
    with pytest.raises(EnvironmentFailureError, match="stored result cannot be verified"):
        run(workspace, manifest())


def test_a_removed_claim_is_reported(workspace: Workspace) -> None:
    run(workspace, manifest())
    if workspace.store.dialect == "sqlite":
        off, on = "DROP TRIGGER claims_no_delete", ""
    else:
        off, on = "ALTER TABLE claims DISABLE TRIGGER ALL", "ALTER TABLE claims ENABLE TRIGGER ALL"
    write(workspace, (off, ()), ("DELETE FROM claims", ()), *([(on, ())] if on else []))
    named = [
        finding.what for finding in workspace.verify_ledger().findings if finding.fault is RecordFault.CLAIM_FORGED
    ]
    assert any("1 intents are recorded and 0 claims" in what for what in named)


def test_a_lease_is_not_valid_for_a_changed_manifest(workspace: Workspace) -> None:
    lease = workspace.issue_lease(manifest()).canonical()
    changed = workspace.execute_task(manifest(constraints={"reversible": False}), lease)
    assert changed.error is not None
    assert changed.error.error_code == "INVALID_LEASE"
    assert workspace.execute_task(manifest(), lease).status == "SUCCESS"


def test_a_revocation_by_another_process_is_noticed_by_one_that_is_running(workspace: Workspace) -> None:
    lease = workspace.issue_lease(manifest()).canonical()
    assert workspace.keyring.active("kernel") is not None
    with Workspace.open(workspace.root, environ=workspace.environ) as elsewhere:
        elsewhere.rotate_key("kernel", revoke=True)
        fresh = elsewhere.issue_lease(manifest("task-2")).canonical()
    refused = workspace.execute_task(manifest(), lease)
    assert refused.error is not None
    assert refused.error.error_code == "INVALID_LEASE"
    assert workspace.execute_task(manifest("task-2"), fresh).status == "SUCCESS"


def test_a_result_is_signed_with_the_executor_key_of_its_time(workspace: Workspace, base: Path) -> None:
    register(workspace, "SLOW")
    asked = file_task("task-3", "SLOW", None, base / "made")
    results: list[ExecutionResult] = []
    caller = threading.Thread(target=lambda: results.append(run(workspace, asked)))
    caller.start()
    wait_for(base / "made")
    with Workspace.open(workspace.root, environ=workspace.environ) as elsewhere:
        elsewhere.rotate_key("executor", revoke=True)
    caller.join(30)
    active = workspace.keyring.active("executor")
    assert active is not None
    assert [result.key_id for result in results] == [active.key_id]


def test_a_lease_that_expired_stays_expired_when_the_clock_is_set_back(
    workspace: Workspace, clock: MovableClock
) -> None:
    lease = workspace.issue_lease(manifest()).canonical()
    clock.offset = timedelta(hours=2)
    assert workspace.execute_task(manifest(), lease).error is not None
    clock.offset = timedelta(0)
    again = workspace.execute_task(manifest(), lease)
    assert again.error is not None
    assert again.error.error_code == "LEASE_EXPIRED"


@pytest.mark.req("EI-12")
def test_concurrent_callers_all_get_the_first_result(workspace: Workspace, base: Path) -> None:
    register(workspace, "SLOW")
    asked = file_task("task-4", "SLOW", None, base / "made")  # a second run would find the file, and fail
    lease = workspace.issue_lease(asked).canonical()
    results: list[bytes] = []
    callers = [
        threading.Thread(target=lambda: results.append(workspace.execute_task(asked, lease).canonical()))
        for _ in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert len(results) == 8
    assert len(set(results)) == 1
    assert b'"SUCCESS"' in results[0]
    assert workspace.verify_ledger().holds


RACER = """
import sys
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    asked, lease = open(sys.argv[2], "rb").read(), open(sys.argv[3], "rb").read()
    print(workspace.execute_task(asked, lease).canonical().decode())
"""


@pytest.mark.req("EI-12")
def test_concurrent_processes_all_print_the_first_result(workspace: Workspace, tmp_path: Any) -> None:
    environ = {name: workspace.environ[name] for name in ("REMIT_STATE", VARIABLE) if name in workspace.environ}
    (tmp_path / "task.json").write_bytes(manifest("task-5"))
    (tmp_path / "lease.json").write_bytes(workspace.issue_lease(manifest("task-5")).canonical())
    command = [
        sys.executable,
        "-c",
        RACER,
        str(workspace.root),
        str(tmp_path / "task.json"),
        str(tmp_path / "lease.json"),
    ]
    printed: list[str] = []
    callers = [
        threading.Thread(target=lambda: printed.append(run_child(command, environment=environ).output))
        for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert len(printed) == 4
    assert len(set(printed)) == 1, printed
    assert '"SUCCESS"' in printed[0]


class Stopped(BaseException):
    """An exception such as SystemExit, which a thread would ignore."""


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, Stopped])
def test_an_interrupted_effect_is_undone_and_recorded_as_a_failure(
    workspace: Workspace, base: Path, interruption: type[BaseException], kinds: Callable[[], list[str]]
) -> None:
    register(workspace, "ENDLESS")
    asked = file_task("task-6", "ENDLESS", None, base / "made")
    lease = workspace.issue_lease(asked).canonical()

    def interrupt(done: int, total: int) -> None:
        assert (base / "made").exists()
        raise interruption

    with pytest.raises(interruption):
        workspace.execute_task(asked, lease, on_progress=interrupt)
    assert list(base.iterdir()) == []
    again = run(workspace, asked)
    assert again.error is not None
    assert "interrupted" in again.error.message
    assert kinds().count("task.outcome") == 1


def test_an_outcome_that_is_too_large_to_record_is_undone_and_recorded_as_a_failure(
    workspace: Workspace, base: Path
) -> None:
    register(workspace, "BOAST")
    asked = file_task("task-7", "BOAST", None, base / "made")
    result = run(workspace, asked)
    assert result.error is not None
    assert list(base.iterdir()) == []
    assert run(workspace, asked).canonical() == result.canonical()
    assert workspace.verify_ledger().holds


def test_an_owner_is_reported_dead_only_when_that_is_certain() -> None:
    mine = this_process()
    boot, namespace, pid, started = mine.split(":")
    assert not is_dead(mine)
    assert is_dead(f"{boot}:{namespace}:{pid}:{int(started) - 1}")
    for unknown in ("", "x", f"other:{namespace}:{pid}:1", f"{boot}:1:{pid}:1", f"{boot}:{namespace}:x:1"):
        assert not is_dead(unknown)


def test_a_workspace_without_its_remit_yaml_does_not_become_part_of_the_one_above(workspace: Workspace) -> None:
    (workspace.root / "remit.yaml").unlink()
    with pytest.raises(RefusedError, match=r"remit\.yaml is missing"):
        Workspace.open(workspace.root, environ=workspace.environ)
