"""`remit demo`: an end-to-end demo in a temporary workspace. It checks every line that it prints, or it fails."""

import json
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from remit.cli.common.bidi import display_text
from remit.cli.common.options import counted, json_option, show_json, speaks_unicode
from remit.cli.demo.goals import SETTINGS, show_goals
from remit.cli.demo.plans import show_plans
from remit.cli.demo.sql import CONFIG, show_sql
from remit.cli.demo.stage import Announce, require
from remit.contracts.config.config import CONFIG_NAME
from remit.contracts.tasks.result import ExecutionResult
from remit.contracts.tasks.task import FILE_COPY, FILE_DELETE, FILE_MOVE, NO_EFFECT
from remit.core.ids import system_clock
from remit.crypto.keyring import parse_public_pem, render_public_pem
from remit.ledger.bundle import verify_bundle, write_bundle
from remit.ledger.findings import VerificationReport
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One step of the demo, and its result."""

    title: str
    result: str


@click.command()
@json_option
def demo(as_json: bool) -> None:
    """Run an end-to-end demo in a temporary workspace.

    It shows leases, plans, SQL, goals and the ledger. Every result is checked before it is printed. The workspace is
    removed at the end.
    """
    steps: list[DemoStep] = []

    def announce(title: str, result: str) -> None:
        steps.append(DemoStep(title, result))
        if not as_json:
            mark = click.style("✓" if speaks_unicode() else "+", fg="green")
            click.echo(f"{mark} {click.style(display_text(title), bold=True)}\n    {display_text(result)}")

    with tempfile.TemporaryDirectory(prefix="remit-demo-") as folder:
        _run(Path(folder).resolve(), announce)
    if as_json:
        show_json({"steps": [{"title": step.title, "result": step.result} for step in steps]})
    else:
        click.echo("\nEverything worked. Next: remit init in a folder of your own.")


def _run(folder: Path, announce: Announce) -> None:
    project, files, environ = folder / "project", folder / "files", {"REMIT_STATE": str(folder / "state")}
    for directory in (project, files):
        directory.mkdir()
    initialise(project, environ, system_clock)[0].close()
    with (project / CONFIG_NAME).open("a", encoding="utf-8") as config:
        config.write(f"base_directories: [{json.dumps(str(files))}]\n{CONFIG}{SETTINGS}")
    with Workspace.open(project, environ=environ) as workspace:
        announce("A workspace", "remit.yaml in the project; four keys (0600) and the ledger outside of it")
        manifest = _manifest("demo-1")
        lease = workspace.issue_lease(manifest)
        announce("The kernel signs a lease for one task", f"lease {lease.lease_id}, until {lease.expires_at}")
        _refusals(workspace, manifest, lease.tree(), announce)
        _runs_once(workspace, manifest, lease.canonical(), announce)
        _move(workspace, files, announce)
        _delete(workspace, files, announce)
        show_plans(workspace, announce)
        show_sql(workspace, announce)
        show_goals(workspace, announce)
        _evidence(workspace, folder, announce)
        _tampering(workspace, announce)


def _refusals(workspace: Workspace, manifest: bytes, lease: dict[str, Any], announce: Announce) -> None:
    stretched = json.dumps({**lease, "expires_at": "2099-01-01T00:00:00Z"}).encode()
    _expect(workspace.execute_task(manifest, stretched), "INVALID_LEASE")
    announce("A lease with a stretched expiry", "refused: INVALID_LEASE, the signature does not match")
    _expect(workspace.execute_task(_manifest("demo-2"), json.dumps(lease).encode()), "INVALID_LEASE")
    announce("The same lease for another task", "refused: INVALID_LEASE, it is bound to its task")
    other = json.loads(_manifest("demo-3")) | {"capability_id": "LAUNCH_ROCKET"}
    _expect(_leased(workspace, json.dumps(other).encode()), "UNSUPPORTED_CAPABILITY")
    announce("A leased task with an unknown capability", "refused: UNSUPPORTED_CAPABILITY")


def _runs_once(workspace: Workspace, manifest: bytes, lease: bytes, announce: Announce) -> None:
    first = workspace.execute_task(manifest, lease)
    require(first.status == "SUCCESS", "the leased task did not succeed")
    announce("The leased task", f"ran; its result is signed by executor key {first.key_id[:12]}...")
    again = workspace.execute_task(manifest, lease)
    require(first.canonical() == again.canonical(), "a repeat gave another result")
    announce("The same task again", "not run twice: the first result was returned, byte for byte")


def _move(workspace: Workspace, files: Path, announce: Announce) -> None:
    report, archived = files / "report.txt", files / "archived.txt"
    report.write_text("quarterly figures\n", encoding="utf-8")
    paths = {"source_path": str(report), "destination_path": str(archived)}
    moved = _leased(workspace, _manifest("demo-4", FILE_MOVE, paths))
    require(moved.status == "SUCCESS" and archived.exists() and not report.exists(), "the file was not moved")
    announce("A file is moved, in a sandboxed process", "report.txt is now archived.txt; signed, recorded, on disk")
    outside = {**paths, "source_path": "/etc/passwd"}
    _expect(_leased(workspace, _manifest("demo-5", FILE_COPY, outside)), "EXECUTION_FAILED")
    announce(
        "A leased task with a path outside",
        "refused: EXECUTION_FAILED, the path lies outside of every allowed directory",
    )
    restored = workspace.restore_task(moved.canonical())
    require(restored.status == "SUCCESS" and report.exists() and not archived.exists(), "the move was not undone")
    announce("The move is undone", f"by a separate task, {restored.task_id}, from the signed result")


def _delete(workspace: Workspace, files: Path, announce: Announce) -> None:
    report = files / "report.txt"
    before = report.read_bytes()
    deleted = _leased(workspace, _manifest("demo-6", FILE_DELETE, {"source_path": str(report)}))
    require(deleted.status == "SUCCESS" and not report.exists(), "the file was not deleted")
    announce("A file is deleted", "only after a snapshot of it was on disk")
    require(workspace.restore_task(deleted.canonical()).status == "SUCCESS", "the file was not restored")
    require(report.read_bytes() == before, "the restored file is different")
    announce("The file is restored", f"byte for byte, {len(before)} bytes")


def _evidence(workspace: Workspace, folder: Path, announce: Announce) -> None:
    verdict = workspace.verify_ledger()
    require(verdict.holds, "the ledger does not verify")
    announce("The ledger", f"{_held(verdict)}: all are correct")
    bundle = folder / "evidence.jsonl"
    with bundle.open("wb") as out:
        write_bundle(workspace.store, out, "default", system_clock)
    pem = "".join(render_public_pem(key) for key in workspace.keyring if key.role == "audit")
    auditor = parse_public_pem(pem.encode(), "audit", source="audit.pem")
    with bundle.open("rb") as stream:
        require(verify_bundle(stream, auditor, source=bundle.name).holds, "the evidence bundle does not verify")
    announce("An auditor with only the public key", f"verified the exported bundle ({bundle.stat().st_size:,} bytes)")


def _held(verdict: VerificationReport) -> str:
    entries = counted(verdict.entries, "chained entry", "chained entries")
    return f"{entries} under {counted(verdict.heads, 'signed head')}"


def _tampering(workspace: Workspace, announce: Announce) -> None:
    """Edit an entry as an attacker with write access to the database file would, without Remit and its triggers."""
    database = sqlite3.connect(workspace.state.database)
    database.execute("DROP TRIGGER ledger_entries_no_update")
    edited = """UPDATE ledger_entries SET payload = '{"nothing":"to see"}' WHERE tenant_id = 'default' AND seq = 2"""
    database.execute(edited)
    database.commit()
    database.close()
    found = {finding.fault.value for finding in workspace.verify_ledger().findings}
    require({"edited", "guard_missing"} <= found, f"tampering was not found: {found}")
    announce("An attacker edits entry 2 in the database", "detected: the entry was edited, and its guard is missing")


def _manifest(task_id: str, capability_id: str = NO_EFFECT, inputs: dict[str, str] | None = None) -> bytes:
    fields = {"task_id": task_id, "capability_id": capability_id, "inputs": inputs or {}}
    return json.dumps({**fields, "constraints": {"reversible": True}}).encode()


def _leased(workspace: Workspace, manifest: bytes) -> ExecutionResult:
    return workspace.execute_task(manifest, workspace.issue_lease(manifest).canonical())


def _expect(result: ExecutionResult, code: str) -> None:
    require(result.error is not None and result.error.error_code == code, f"expected {code}, got {result.tree()}")
