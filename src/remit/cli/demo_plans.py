"""The chapter of `remit demo` on plans: seen, approved, applied, refused, rolled back."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from remit.cli.demo_stage import Tell, require
from remit.contracts.outcome import PlanOutcome, PlanRefusal
from remit.errors import Refused
from remit.workspace import Workspace

SETTINGS = '{\n  "retries": 3,\n  "verbose": false\n}\n'


def show_plans(workspace: Workspace, tell: Tell) -> None:
    root = workspace.root
    (root / "settings.json").write_text(SETTINGS, encoding="utf-8")
    (root / "notes.txt").write_text("first line\n", encoding="utf-8")
    (root / ".env").write_text("REGION=north\n", encoding="utf-8")
    plan = _plan("demo-plan-1", _update_json("settings.json", "$.retries", 5))
    _preview(workspace, plan, tell)
    _apply(workspace, plan, tell)
    _failing(workspace, tell)
    _protected(workspace, tell)
    _take_back(workspace, tell)


def _preview(workspace: Workspace, plan: bytes, tell: Tell) -> None:
    before = _tree(workspace.root)
    seen = workspace.preview(plan).document
    (file,) = seen.files
    require('+  "retries": 5,' in file.diff, "the preview does not show the change")
    require(_tree(workspace.root) == before, "the preview changed something")
    changed = "; ".join(line for line in file.diff.splitlines() if line[:2] in {"- ", "+ "})
    tell("A plan is previewed", f"{file.path}: {changed}; risk {seen.risk}; nothing was changed")


def _apply(workspace: Workspace, plan: bytes, tell: Tell) -> None:
    envelope = workspace.approve(plan)
    tell("A person approves it", f"envelope {envelope.envelope_id}: this plan, these files, once, for an hour")
    altered = envelope.canonical().replace(b'"value":5', b'"value":6')
    _expect(workspace.apply(altered), 1003)
    tell("The approved plan, changed by one byte", "refused: 1003, the approval is for another plan")
    first = workspace.apply(envelope.canonical())
    require(_status(first) == "SUCCESS", "the approved plan did not succeed")
    wanted = SETTINGS.replace("3", "5")
    require((workspace.root / "settings.json").read_text(encoding="utf-8") == wanted, "the file is another")
    tell("The approved plan", "applied in a sandboxed process: one value changed, every other byte as it was")
    again = workspace.apply(envelope.canonical())
    require(again.canonical() == first.canonical(), "a repeat gave another outcome")
    tell("The same envelope again", "not applied twice: the first outcome came back, byte for byte")


def _failing(workspace: Workspace, tell: Tell) -> None:
    before = _tree(workspace.root)
    actions = (
        _update_json("settings.json", "$.verbose", True),
        _replace_text("notes.txt", "first", "second"),
        _create("new/file.txt", "new\n"),
    )
    rule = {"type": "file_absent", "path": "new/file.txt"}
    plan = _plan("demo-plan-2", *actions, validation_rules=[rule])
    outcome = workspace.apply(workspace.approve(plan).canonical())
    _expect(outcome, 1201)
    require(_status(outcome) == "ROLLED_BACK", "the plan was not rolled back")
    require(_tree(workspace.root) == before, "the rollback left something behind")
    tell("Three changes, and a check that fails afterwards", "rolled back: 1201; every file and folder as before")


def _protected(workspace: Workspace, tell: Tell) -> None:
    plan = _plan("demo-plan-3", _replace_text(".env", "north", "south"))
    try:
        workspace.approve(plan)
    except Refused as problem:
        tell("A plan that touches .env", f"refused: {problem.what}")
    else:
        require(False, "a protected file was approved without a word")
    outcome = workspace.apply(workspace.approve(plan, protected=(".env",)).canonical())
    require(_status(outcome) == "SUCCESS", "an approved change of a protected file did not succeed")
    tell("The same, with .env allowed by its name", "applied")


def _take_back(workspace: Workspace, tell: Tell) -> None:
    back = workspace.rollback("last")
    require(back.status == "EXECUTED", "the plan was not taken back")
    require((workspace.root / ".env").read_bytes() == b"REGION=north\n", "the restored file is another")
    tell("The last plan is taken back", "all backups checked first, then restored: bytes, mode and times")
    stored: list[bool] = []
    workspace.rollback("last", on_stored=lambda: stored.append(True))
    require(stored, "a second rollback did something")
    tell("And once more", "nothing left to restore, and nothing was done")


def _plan(plan_id: str, *actions: dict[str, Any], **more: Any) -> bytes:
    numbered = [{"action_id": f"a{number}", **action} for number, action in enumerate(actions, start=1)]
    return json.dumps({"plan_id": plan_id, "action_plan": numbered, **more}).encode()


def _update_json(target: str, path: str, value: Any) -> dict[str, Any]:
    operation = {"type": "json_update_value", "path": path, "value": value}
    return {"action_type": "FILE_MODIFY", "target": target, "operation": operation}


def _replace_text(target: str, old: str, new: str) -> dict[str, Any]:
    operation = {"type": "text_replace", "pattern": old, "replacement": new}
    return {"action_type": "FILE_MODIFY", "target": target, "operation": operation}


def _create(target: str, content: str) -> dict[str, Any]:
    return {"action_type": "FILE_CREATE", "target": target, "operation": {"type": "write", "content": content}}


def _status(outcome: PlanOutcome | PlanRefusal) -> str:
    return outcome.status.status if isinstance(outcome, PlanOutcome) else "refused"


def _expect(outcome: PlanOutcome | PlanRefusal, code: int) -> None:
    found = {error.error_code for error in outcome.errors}
    require(code in found, f"expected {code}, got {sorted(found)}")


def _tree(root: Path) -> str:
    """A digest of every name, mode and byte below the root, but for what Remit itself writes."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in {"agent_outputs", "agent_logs"})
        for name in (*folders, *sorted(files)):
            path = Path(folder, name)
            content = path.read_bytes() if path.is_file() else b""
            digest.update(repr((str(path), path.stat().st_mode, content)).encode())
    return digest.hexdigest()
