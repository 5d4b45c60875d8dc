"""What people see of a plan: coloured diffs, verdicts with the flag to give; nothing a terminal obeys."""

import json
import re
import shlex
import subprocess
import uuid
from typing import Any

import click
import pytest

from remit.cli.plans.render import count_hidden_lines, render_outcome, render_preview
from remit.cli.plans.render_diff import render_diff
from remit.cli.plans.render_rollback import render_rollback
from remit.cli.plans.text import quoted, render_size
from remit.contracts.plans.outcome import PlanOutcome, RollbackOutcome
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.ledger.entry import Entry
from remit.plans.reports.diff_lines import parse_diff
from remit.services.base.entry_text import render_meaning

DIFF = """--- a/x
+++ b/x
@@ -1,3 +1,3 @@
 same
--- looks like a header
+++ looks like one too
 same
@@ -10 +10,2 @@
 here
+more
\\ No newline at end of file
--- a/y
+++ /dev/null
@@ -1 +0,0 @@
-gone"""


def test_a_line_of_a_file_is_never_taken_for_a_header() -> None:
    kinds = [line.kind for line in parse_diff(DIFF)]
    first = ["header", "header", "hunk", "same", "removed", "added", "same"]
    second = ["hunk", "same", "added", "note"]
    assert kinds == [*first, *second, "header", "header", "hunk", "removed"]


def test_a_diff_is_coloured_line_by_line() -> None:
    lines = render_diff("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n")
    assert lines == [
        click.style("--- a/x", bold=True),
        click.style("+++ b/x", bold=True),
        click.style("@@ -1 +1 @@", fg="cyan"),
        click.style("-old", fg="red"),
        click.style("+new", fg="green"),
    ]


def test_a_long_diff_is_cut_and_says_how_much_is_missing() -> None:
    text = "@@ -0,0 +1,100 @@\n" + "\n".join(f"+{number}" for number in range(100)) + "\n"
    lines = render_diff(text, 40, left_out=7)
    assert len(lines) == 41
    assert lines[-1] == "... 68 more lines"
    assert render_diff("") == []


@pytest.mark.parametrize("evil", ["\x1b[2J", "\r", "\x07", "\u202e", "\x9b31m"])
def test_nothing_in_a_diff_reaches_the_terminal_as_an_order(evil: str) -> None:
    (line,) = render_diff(f"+a{evil}b\tc")
    shown = click.unstyle(line)
    assert evil not in shown
    assert "\tc" in shown


# --- documents to show -----------------------------------------------------------------------------------------------

DIGEST = f"sha256:{'0' * 64}"
NOTHING: dict[str, list[str]] = {"protected": [], "executable": [], "content": [], "irreversible": []}
TIME = "2026-11-15T15:45:01Z"
SIGNED = {"key_id": "A" * 43, "signature": "A" * 86}


def previewed(**changes: Any) -> PlanPreviewDocument:
    file = {
        "action_id": "a1",
        "path": "x",
        "new_path": None,
        "operation": "MODIFY",
        "before": DIGEST,
        "after": DIGEST,
        "lines_added": 1,
        "lines_removed": 2,
        "diff": "@@ -1,2 +1 @@\n-a\n-b\n+c\n",
        "diff_left_out": 0,
    }
    document = {
        "plan_id": "plan-1",
        "plan_digest": DIGEST,
        "config_digest": DIGEST,
        "digest": DIGEST,
        "status": "READY",
        "risk": "LOW",
        "inputs": [],
        "files": [file | changes.pop("file", {})],
        "needs": NOTHING | changes.pop("needs", {}),
        "findings": [],
        "problems": [],
        "rules": [],
        "folders": [],
        "backup_bytes": 1_234,
    }
    return PlanPreviewDocument.from_tree(document | changes)


def error(code: int, kind: str, message: str, **details: Any) -> dict[str, Any]:
    categories = {1: "VALIDATION_ERROR", 2: "FILE_SYSTEM_ERROR", 5: "INTERNAL_ERROR"}
    return {
        "error_id": str(uuid.uuid4()),
        "error_code": code,
        "error_category": categories[code // 1000],
        "error_type": kind,
        "message": message,
        "details": details,
        "recovery_action": "ROLLED_BACK",
        "timestamp": TIME,
    }


def checkpoint(path: str, restored_at: str | None = None) -> dict[str, Any]:
    return {
        "checkpoint_id": str(uuid.uuid4()),
        "file_path": path,
        "backup_location": f"backups/{path}",
        "original_hash": DIGEST,
        "original_size": 1_200,
        "operation_to_reverse": "MODIFY",
        "restore_command": "copy it",
        "restored_at": restored_at,
    }


def manifest(*checkpoints: dict[str, Any]) -> dict[str, Any]:
    return {
        "manifest_id": str(uuid.uuid4()),
        "plan_id": "plan-1",
        "created_at": TIME,
        "expires_at": "2026-12-15T15:45:01Z",
        "status": "ACTIVE",
        "checkpoints": list(checkpoints),
        "rollback_order": [each["checkpoint_id"] for each in checkpoints],
        "auto_rollback_script": "agent_outputs/reports/r/rollback.py",
        "notes": "",
    }


def state(exists: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002 - of a file
    known = {"hash": DIGEST, "size_bytes": 1, "last_modified": TIME}
    return {"exists": exists, **(known if exists else dict.fromkeys(known))}


def ended(status: str = "SUCCESS", **changes: Any) -> PlanOutcome:
    report_id = str(uuid.uuid4())
    change = {
        "change_id": str(uuid.uuid4()),
        "action_id": "a1",
        "file_path": "x",
        "operation": "MODIFY",
        "before_state": state(),
        "after_state": state(),
        "diff_summary": {"lines_added": 1, "lines_removed": 0, "preview": "@@ -0,0 +1 @@\n+new\n"},
        "timestamp": TIME,
    }
    done = {"action_id": "a1", "status": "SUCCESS", "started_at": TIME, "completed_at": TIME, "output": "done"}
    failed = {"action_id": "a2", "status": "FAILED", "error_code": 2001, "error_message": "gone"}
    good = status == "SUCCESS"
    document = {
        "status": {
            "envelope_id": "envelope-1",
            "plan_id": "plan-1",
            "report_id": report_id,
            "status": status,
            "executor_id": "remit.plan",
            "executor_version": "1",
            "completed_at": TIME,
            "folder": "agent_outputs/reports/r",
            "report_digest": DIGEST,
            "change_log_digest": DIGEST,
            "manifest_digest": None,
            **SIGNED,
        },
        "report": {
            "report_id": report_id,
            "plan_id": "plan-1",
            "executor_version": "1",
            "status": status,
            "started_at": TIME,
            "completed_at": TIME,
            "duration_ms": 12,
            "actions_summary": {"total": 1 if good else 3, "completed": 1, "failed": 0 if good else 1}
            | {"skipped": 0 if good else 1},
            "actions_completed": [done],
            "actions_failed": [] if good else [failed],
            "actions_skipped": [] if good else [{"action_id": "a3", "reason": "Stopped after a2 failed"}],
            "rollback_performed": status == "ROLLED_BACK",
            "rollback_manifest_id": str(uuid.uuid4()),
        },
        "change_log": {
            "log_id": str(uuid.uuid4()),
            "plan_id": "plan-1",
            "execution_report_id": report_id,
            "created_at": TIME,
            "changes": [change] if good else [],
            "files_affected_count": 1 if good else 0,
            "total_lines_changed": 1 if good else 0,
        },
        "manifest": manifest(checkpoint("x")) if good else None,
        "errors": [] if good else [error(2001, "FILE_NOT_FOUND", "there is no such file", action_id="a2", target="y")],
    }
    return PlanOutcome.from_tree(document | changes)


def text(lines: Any) -> str:
    return click.unstyle("\n".join(lines))


def test_a_preview_shows_the_changes_the_risk_and_whether_they_can_be_undone() -> None:
    shown = text(render_preview(previewed(risk="HIGH", folders=["new", "new/deep"])))
    assert shown.startswith("Plan plan-1: 1 change to 1 file, +1 -2 lines\n")
    assert "a1: change x\n@@ -1,2 +1 @@\n-a\n-b\n+c\n" in shown
    assert "  risk      HIGH" in shown
    assert "  undo      everything can be undone; 1.2 KB of backups" in shown
    assert "  folders   2 folders created: new, new/deep" in shown


def test_each_approval_that_is_missing_comes_with_the_flag_to_give() -> None:
    needs = {"protected": [".env"], "executable": ["bin/a b"], "content": ["-x"], "irreversible": ["a1"]}
    shown = text(render_preview(previewed(needs=needs)))
    assert "protected: .env   give: --allow-protected .env\n" in shown
    assert "executable: bin/a b   give: --allow-executable 'bin/a b'\n" in shown
    assert "content: -x   give: --allow-content '-x'\n" in shown
    assert "irreversible: a1   give: --allow-irreversible a1\n" in shown
    assert "cannot be undone: a1" in shown


def test_of_a_pipeline_of_code_its_files_can_be_undone() -> None:
    pipeline = {"action_id": "p1", "pipeline": "nightly", "kind": "python", "reversible": False, "steps": []}
    shown = text(render_preview(previewed(needs={"irreversible": ["p1", "a2"]}, pipelines=[pipeline])))
    assert (
        "  undo      cannot be undone: a2; only the listed files of these actions can be undone: p1; 1.2 KB of backups"
        in shown
    )
    report = ended().tree()["report"] | {"pipelines": [pipeline]}
    done = text(render_outcome(ended(report=report)))
    assert re.search(r"undo      remit rollback last   \(.*restores the files, not other effects of p1", done)


def test_findings_and_problems_are_named() -> None:
    finding = {"path": "x", "rule": "credential", "where": "line 3", "what": "a password"}
    whole = {"path": "x", "rule": "executable", "where": "", "what": "a program"}
    problem = error(1101, "NO_MATCH", "the text does not occur", action_id="a1", target="x")
    shown = text(render_preview(previewed(findings=[finding, whole], problems=[problem], status="WOULD_FAIL")))
    assert "  found     x, line 3: credential: a password" in shown
    assert "  found     x: executable: a program" in shown
    assert "  problem   a1 x: 1101 NO_MATCH, the text does not occur" in shown


def test_a_plan_that_would_fail_shows_the_consequence_and_promises_no_undo() -> None:
    problem = error(1101, "NO_MATCH", "the text does not occur", action_id="a1", target="x")
    failing = {"problems": [problem], "status": "WOULD_FAIL", "doomed": True, "would_end": "FAILED"}
    shown = text(render_preview(previewed(consequence="a1 would fail, so nothing would be changed.", **failing)))
    assert "  then      a1 would fail, so nothing would be changed." in shown
    assert "can be undone" not in shown
    remarked = text(render_preview(previewed(remarks=[{"path": "a.csv", "what": "a formula\x1b"}])))
    assert "  remark    a.csv: a formula\\x1b\n" in remarked
    assert "can be undone" in remarked


def test_a_preview_is_cut_by_file_and_counts_what_is_not_shown() -> None:
    diff = "@@ -0,0 +1,100 @@\n" + "".join(f"+{number}\n" for number in range(100))
    document = previewed(file={"diff": diff, "diff_left_out": 7})
    assert "... 68 more lines: --full" in text(render_preview(document))
    assert count_hidden_lines(document, 40) == 68
    assert count_hidden_lines(document, None) == 7
    assert "... 7 more lines\n" in text(render_preview(document, max_lines=None))
    listed = text(render_preview(document, max_lines=0))
    assert "  a1: change x  +1  -2\n" in listed
    assert "@@" not in listed


def test_what_will_be_checked_is_shown_one_line_for_each_rule() -> None:
    rules = ["file_exists docs/a.txt", "json_schema a.json against a.schema.json"]
    shown = text(render_preview(previewed(rules=rules)))
    assert "  checks    file_exists docs/a.txt\n  checks    json_schema a.json against a.schema.json\n" in shown
    assert "checks" not in text(render_preview(previewed()))


def test_a_name_cannot_write_a_line_of_its_own() -> None:
    evil = "x\n  risk      LOW\x1b[2K"
    changes: dict[str, Any] = {"rules": [f"hash {evil}"], "folders": [evil]}
    shown = list(render_preview(previewed(file={"path": evil}, needs={"protected": [evil]}, **changes)))
    assert all(click.unstyle(line).isprintable() for line in shown)
    assert sum(line.startswith("  risk ") for line in map(click.unstyle, shown)) == 1


def test_a_success_says_what_was_changed_what_it_took_and_how_to_roll_it_back() -> None:
    shown = text(render_outcome(ended()))
    assert shown.startswith("SUCCESS  plan-1: 1 of 1 action, 1 file, +1 -0 lines\n")
    assert "  changed   x\n    @@ -0,0 +1 @@\n    +new\n" in shown
    assert "  took      12 ms; 1.2 KB of backups\n" in shown
    assert "  report    agent_outputs/reports/r/\n" in shown
    assert (
        "  undo      remit rollback last   (until 2026-12-15; or: python3 -I agent_outputs/reports/r/rollback.py)"
        in shown
    )
    assert "rollback envelope-1 " in text(render_outcome(ended(), is_last=False))
    assert "+new" not in text(render_outcome(ended(), diffs=False))


def test_a_failure_names_the_failed_action_first_and_says_what_is_left() -> None:
    lines = text(render_outcome(ended("ROLLED_BACK"))).splitlines()
    assert lines[0] == "ROLLED_BACK  plan-1: 1 of 3 actions done, then undone"
    assert lines[1] == "  failed    a2 y: 2001 FILE_NOT_FOUND, there is no such file"
    assert lines[2] == '  skipped   "a3": Stopped after "a2" failed'
    assert lines[3] == "  left      Rolled back: everything is as before."
    assert not any("remit rollback" in line for line in lines)


def test_a_rollback_names_what_was_restored_and_what_was_kept() -> None:
    first, second = checkpoint("x", TIME), checkpoint("y")
    nothing = dict.fromkeys(("backup_location", "original_hash", "original_size"))
    made = checkpoint("new", TIME) | nothing | {"operation_to_reverse": "CREATE"}
    outcome = RollbackOutcome.from_tree(
        {
            "order_id": "o",
            "envelope_id": "envelope-1",
            "manifest_id": str(uuid.uuid4()),
            "status": "PARTIAL",
            "restored": [first["checkpoint_id"], made["checkpoint_id"]],
            "kept": [{"checkpoint_id": second["checkpoint_id"], "reason": "changed since"}],
            "manifest": manifest(first, second, made),
            "errors": [],
            "executed_at": TIME,
            **SIGNED,
        }
    )
    shown = text(render_rollback(outcome))
    assert shown.startswith("PARTIAL  plan plan-1, envelope envelope-1: 2 checkpoints as before the plan\n")
    assert "  restored  x\n  removed   new\n" in shown
    assert "  kept      y: changed since\n" in shown
    assert "  not restored 1 checkpoint" in shown


def test_a_name_is_quoted_as_a_shell_reads_it(subtests: pytest.Subtests) -> None:
    for name in ["plain/name.txt", "two words", "it's", "-x", "$(id)", "", "a;b", "文書"]:
        with subtests.test(name):
            assert shlex.split(quoted(name)) == [name]


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2Jx", "q'\\\x07", "\u202ex"])
def test_a_name_with_control_characters_is_spelled_as_bash_reads_it(name: str) -> None:
    assert quoted(name).isprintable()
    done = subprocess.run(
        ["bash", "-c", f"printf %s {quoted(name)}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout.decode() == name


@pytest.mark.parametrize("size, shown", [(0, "0 bytes"), (1, "1 byte"), (1_200, "1.2 KB"), (3_400_000, "3.4 MB")])
def test_sizes_are_short(size: int, shown: str) -> None:
    assert render_size(size) == shown


@pytest.mark.parametrize(
    "kind, payload, meaning",
    [
        ("envelope.cancelled", {"envelope_id": "e"}, "the envelope is void; a plan that runs with it is undone"),
        ("plan.pruned", {"folder": "f", "bytes": 1}, "f, backups removed"),
        (
            "plan.outcome",
            {"status": {"status": "PARTIAL"}, "actions": [["done", "failed"], ["b", "done"]]},
            "PARTIAL, 1 of 2 actions",
        ),
        ("rollback.intent", {"consent": "rollback order x"}, "a signed order to roll the plan back"),
        ("plan.outcome", {"status": 7, "actions": "?"}, '{"status": 7, "actions": "?"}'),
    ],
)
def test_the_ledger_says_in_words_what_happened_to_a_plan(kind: str, payload: dict[str, Any], meaning: str) -> None:
    blank = Entry(*([""] * len(Entry._fields)))  # type: ignore[arg-type]
    assert render_meaning(blank._replace(kind=kind, payload=json.dumps(payload))) == meaning
