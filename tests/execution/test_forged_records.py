"""An attacker writes to the database without a key. Forged claims, intents and outcomes change and return nothing."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.tasks.task import TaskManifest
from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.errors import EnvironmentFailureError, Reason
from remit.fs.openat import inspect_file
from remit.store.connection import Connection
from remit.store.process_identity import this_process
from remit.tasks.checkpoint import TaskCheckpoint, render_checkpoint
from remit.tasks.policy import new_part_name
from remit.workspace.workspace import Workspace
from tests.support.task_workspace import file_task, manifest, run

CLAIM = (
    "INSERT INTO claims (tenant_id, scope, key, request_digest, correlation_id, checkpoint, owner, claim_token,"
    " claimed_at, state, result, finished_at, outcome_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
DEAD = this_process().rpartition(":")[0] + ":1"  # the id of this process, started at another time


@contextmanager
def past_the_guards(workspace: Workspace) -> Iterator[Connection]:
    """The database with its triggers removed; they are restored at the end."""
    connection = workspace.store.connect()
    sqlite = workspace.store.dialect == "sqlite"
    guards = list(connection.rows("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")) if sqlite else []
    for name, _ in guards:
        connection.script(f"DROP TRIGGER {name}")
    for table in () if sqlite else ("claims", "ledger_entries"):
        connection.script(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    yield connection
    for _, statement in guards:
        connection.script(statement)
    for table in () if sqlite else ("claims", "ledger_entries"):
        connection.script(f"ALTER TABLE {table} ENABLE TRIGGER ALL")
    connection.close()


def claim_row(task: TaskManifest, checkpoint: str, state: str, result: str | None, seq: int | None) -> tuple[Any, ...]:
    when = "2026-11-15T14:00:00.000000Z"
    ids = ("default", "task", task.task_id, task.digest(), task.task_id, checkpoint, DEAD, "ab" * 16, when)
    return (*ids, state, result, when if result else None, seq)


def test_a_forged_intent_and_checkpoint_move_no_file(workspace: Workspace, base: Path) -> None:
    source, twin = base / "source", base / "twin"
    source.write_bytes(b"same")
    twin.write_bytes(b"same")
    run(workspace, manifest("real"))
    task = TaskManifest.parse(file_task("forged", "FILE_MOVE", source, twin))
    folder = os.open(base, os.O_RDONLY)
    before = {"source_path": inspect_file(folder, "source")}
    os.close(folder)
    checkpoint = render_checkpoint(TaskCheckpoint(task, before, None, new_part_name()))
    made_up = {"request_digest": task.digest(), "checkpoint_digest": digest_bytes(checkpoint.encode())}
    with past_the_guards(workspace) as connection:
        connection.execute(
            "UPDATE ledger_entries SET kind = 'task.intent', correlation_id = ?, payload = ?"
            " WHERE kind = 'lease.issued'",
            ("forged", canonical_bytes(made_up).decode()),
        )
        connection.execute(CLAIM, claim_row(task, checkpoint, "CLAIMED", None, None))
    (report,) = workspace.recover()
    assert report.problem is not None
    assert report.problem.reason is Reason.EVIDENCE_INVALID
    assert source.exists()
    assert twin.exists()


def test_the_stored_result_of_another_task_is_never_returned(workspace: Workspace, base: Path) -> None:
    source = base / "source"
    source.write_bytes(b"x")
    run(workspace, file_task("done", "FILE_COPY", source, base / "copy"))
    asked = file_task("wanted", "FILE_DELETE", source)
    with past_the_guards(workspace) as connection:
        row = connection.one("SELECT result, outcome_seq, checkpoint FROM claims WHERE key = 'done'")
        assert row is not None
        connection.execute(CLAIM, claim_row(TaskManifest.parse(asked), row[2], "DONE", row[0], row[1]))
    with pytest.raises(EnvironmentFailureError, match="not the one that the ledger recorded"):
        run(workspace, asked)
    assert source.exists()


@pytest.mark.req("EI-12")
def test_a_task_whose_claim_was_removed_does_not_run_a_second_time(workspace: Workspace, base: Path) -> None:
    source, copy = base / "source", base / "copy"
    source.write_bytes(b"x")
    asked = file_task("t", "FILE_COPY", source, copy)
    run(workspace, asked)
    copy.unlink()
    with past_the_guards(workspace) as connection:
        connection.execute("DELETE FROM claims WHERE key = ?", ("t",))
    with pytest.raises(EnvironmentFailureError, match="started before"):
        run(workspace, asked)
    assert not copy.exists()


@pytest.mark.req("EI-12")
def test_a_finished_task_that_is_made_to_look_unfinished_gets_no_second_outcome(
    workspace: Workspace, base: Path
) -> None:
    source = base / "source"
    source.write_bytes(b"x")
    run(workspace, file_task("t", "FILE_COPY", source, base / "copy"))
    with past_the_guards(workspace) as connection:
        connection.execute(
            "UPDATE claims SET state = 'CLAIMED', result = NULL, finished_at = NULL, outcome_seq = NULL, owner = ?"
            " WHERE key = 't'",
            (DEAD,),
        )
    (report,) = workspace.recover()
    assert report.problem is not None
    assert "has an outcome" in report.problem.what
    with workspace.store.reading() as connection:
        outcomes = list(connection.rows("SELECT payload FROM ledger_entries WHERE kind = 'task.outcome'"))
    assert [json.loads(payload)["outcome"]["status"] for (payload,) in outcomes] == ["SUCCESS"]


@pytest.mark.req("FX-05")
def test_no_task_reads_the_unfinished_bytes_of_another(workspace: Workspace, base: Path) -> None:
    source = base / "source"
    source.write_bytes(b"x")
    part = base / new_part_name()
    part.write_bytes(b"on their way")
    for number, (old, new) in enumerate([(part, base / "x"), (source, base / new_part_name())]):
        result = run(workspace, file_task(str(number), "FILE_MOVE", old, new))
        assert result.error is not None
        assert "belong to running tasks" in result.error.message
    assert part.read_bytes() == b"on their way"
