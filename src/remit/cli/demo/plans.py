"""The part of `remit demo` on plans: previewed, approved, applied, refused and rolled back."""

from remit.cli.demo.stage import (
    Announce,
    create,
    expect,
    plan_of,
    replace_text,
    require,
    status_of,
    tree_of,
    update_json,
)
from remit.core.errors import RefusedError
from remit.workspace.workspace import Workspace

SETTINGS = '{\n  "retries": 3,\n  "verbose": false\n}\n'


def show_plans(workspace: Workspace, announce: Announce) -> None:
    root = workspace.root
    (root / "settings.json").write_text(SETTINGS, encoding="utf-8")
    (root / "notes.txt").write_text("first line\n", encoding="utf-8")
    (root / ".env").write_text("REGION=north\n", encoding="utf-8")
    plan = plan_of("demo-plan-1", update_json("settings.json", "$.retries", 5))
    _preview(workspace, plan, announce)
    _apply(workspace, plan, announce)
    _failing(workspace, announce)
    _protected(workspace, announce)
    _undo(workspace, announce)


def _preview(workspace: Workspace, plan: bytes, announce: Announce) -> None:
    before = tree_of(workspace.root)
    document = workspace.preview(plan).document
    (file,) = document.files
    require('+  "retries": 5,' in file.diff, "the preview does not show the change")
    require(tree_of(workspace.root) == before, "the preview changed something")
    changed = "; ".join(line for line in file.diff.splitlines() if line[:2] in {"- ", "+ "})
    announce("A plan is previewed", f"{file.path}: {changed}; risk {document.risk}; nothing was changed")


def _apply(workspace: Workspace, plan: bytes, announce: Announce) -> None:
    envelope = workspace.approve(plan)
    announce("A person approves it", f"envelope {envelope.envelope_id}: this plan, these files, once, for an hour")
    altered = envelope.canonical().replace(b'"value":5', b'"value":6')
    expect(workspace.apply(altered), 1003)
    announce("The approved plan, changed by one byte", "refused: 1003, the approval is for another plan")
    first = workspace.apply(envelope.canonical())
    require(status_of(first) == "SUCCESS", "the approved plan did not succeed")
    wanted = SETTINGS.replace("3", "5")
    require((workspace.root / "settings.json").read_text(encoding="utf-8") == wanted, "the file is different")
    announce("The approved plan", "applied in a sandboxed process: one value changed, every other byte is the same")
    again = workspace.apply(envelope.canonical())
    require(again.canonical() == first.canonical(), "a repeat gave a different outcome")
    announce("The same envelope again", "not applied twice: the first outcome was returned, byte for byte")


def _failing(workspace: Workspace, announce: Announce) -> None:
    before = tree_of(workspace.root)
    actions = (
        update_json("settings.json", "$.verbose", True),
        replace_text("notes.txt", "first", "second"),
        create("new/file.txt", "new\n"),
    )
    rule = {"type": "file_absent", "path": "new/file.txt"}
    plan = plan_of("demo-plan-2", *actions, validation_rules=[rule])
    outcome = workspace.apply(workspace.approve(plan).canonical())
    expect(outcome, 1201)
    require(status_of(outcome) == "ROLLED_BACK", "the plan was not rolled back")
    require(tree_of(workspace.root) == before, "the rollback left something behind")
    announce("Three changes, and a check that fails afterwards", "rolled back: 1201; every file and folder as before")


def _protected(workspace: Workspace, announce: Announce) -> None:
    plan = plan_of("demo-plan-3", replace_text(".env", "north", "south"))
    try:
        workspace.approve(plan)
    except RefusedError as problem:
        announce("A plan that touches .env", f"refused: {problem.what}")
    else:
        require(False, "a protected file was approved without its name")
    outcome = workspace.apply(workspace.approve(plan, protected=(".env",)).canonical())
    require(status_of(outcome) == "SUCCESS", "an approved change of a protected file did not succeed")
    announce("The same, with .env allowed by its name", "applied")


def _undo(workspace: Workspace, announce: Announce) -> None:
    outcome = workspace.rollback("last")
    require(outcome.status == "EXECUTED", "the plan was not rolled back")
    require((workspace.root / ".env").read_bytes() == b"REGION=north\n", "the restored file is different")
    announce("The last plan is rolled back", "all backups checked first, then restored: bytes, mode and times")
    stored: list[bool] = []
    workspace.rollback("last", on_stored=lambda: stored.append(True))
    require(stored, "a second rollback did something")
    announce("The same rollback again", "nothing left to restore, and nothing was done")
