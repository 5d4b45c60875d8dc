"""The commands around plans on real files: exit codes, words, `--json`, a person at a terminal, Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.outcome import RollbackOutcome
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.plans.report import ExecutionReport
from remit.contracts.plans.status import CompletionStatus
from tests.cli.conftest import CommandResult, Remit, approve
from tests.cli.terminal import TypedAnswer, run_in_terminal

BEFORE = '{\n  "retries": 3\n}\n'
AFTER = '{\n  "retries": 5\n}\n'


@pytest.fixture
def project(remit: Remit, tmp_path: Path) -> Path:
    assert remit("init").code == 0
    folder = tmp_path / "project"
    (folder / "settings.json").write_text(BEFORE)
    (folder / ".env").write_text("REGION=north\n")
    return folder


def update(value: Any = 5, target: str = "settings.json", path: str = "$.retries") -> dict[str, Any]:
    operation = {"type": "json_update_value", "path": path, "value": value}
    return {"action_type": "FILE_MODIFY", "target": target, "operation": operation}


def create(target: str) -> dict[str, Any]:
    return {"action_type": "FILE_CREATE", "target": target, "operation": {"type": "write", "content": "new\n"}}


def put(project: Path, *actions: dict[str, Any], **more: Any) -> str:
    numbered = [{"action_id": f"a{number}", **action} for number, action in enumerate(actions, start=1)]
    (project / "plan.json").write_text(json.dumps({"plan_id": "plan-1", "action_plan": numbered, **more}))
    return "plan.json"


def change_env() -> dict[str, Any]:
    operation = {"type": "text_replace", "pattern": "north", "replacement": "south"}
    return {"action_type": "FILE_MODIFY", "target": ".env", "operation": operation}


def applied(remit: Remit, plan: str, *allowed: str) -> CommandResult:
    approved = approve(remit, plan, "-o", "envelope.json", *allowed)
    assert approved.code == 0, approved
    return remit("apply", "envelope.json")


@pytest.mark.req("PX-29")
def test_a_preview_shows_the_diff_and_changes_nothing(remit: Remit, project: Path) -> None:
    shown = remit("preview", put(project, update(), create("docs/new.txt")))
    assert shown.code == 0, shown
    assert '-  "retries": 3\n+  "retries": 5\n' in shown.out
    assert "+new\n" in shown.out
    assert "Everything can be undone" in shown.out
    assert "\x1b[" not in shown.out
    assert (project / "settings.json").read_text() == BEFORE
    assert sorted(path.name for path in project.iterdir()) == [".env", "plan.json", "remit.yaml", "settings.json"]
    document = PlanPreviewDocument.from_tree(remit("preview", "plan.json", "--json").document)
    assert (document.status, len(document.files), document.folders) == ("READY", 2, ("docs",))
    assert "\x1b[32m" in remit("preview", "plan.json", FORCE_COLOR="1").out


@pytest.mark.req("PX-29")
def test_what_was_previewed_is_what_is_applied(remit: Remit, project: Path) -> None:
    document = remit("preview", put(project, update()), "--json").document
    assert applied(remit, "plan.json").code == 0
    (log,) = project.glob("agent_outputs/reports/*/change_log.json")
    (change,) = json.loads(log.read_text())["changes"]
    (file,) = document["files"]
    assert (change["before_state"]["hash"], change["after_state"]["hash"]) == (file["before"], file["after"])


def test_a_preview_of_what_would_fail_ends_with_1_and_of_what_is_refused_with_2(remit: Remit, project: Path) -> None:
    shown = remit("preview", put(project, update(path="$.missing")))
    assert shown.code == 1, shown
    assert "1101 NO_MATCH" in shown.out
    refused = remit("preview", put(project, create("../outside.txt")))
    assert (refused.code, refused.out) == (2, "")
    assert "refused" in refused.err
    assert remit("preview", "plan.json", "--json").document["error"]["reason"] == "path_refused"
    (project / "plan.json").write_text("{}")
    told = remit("preview", "plan.json")
    assert told.code == 2
    assert "plan.json" in told.err


@pytest.mark.req("PX-13", "PX-37")
def test_an_approved_plan_is_applied_once_and_reported(remit: Remit, project: Path) -> None:
    approved = approve(remit, put(project, update()), "-o", "envelope.json", "--minutes", "5")
    assert approved.code == 0, approved
    envelope = Envelope.parse((project / "envelope.json").read_bytes())
    assert envelope.envelope_id in approved.out
    done = remit("apply", "envelope.json")
    assert done.code == 0, done
    assert done.out.startswith("SUCCESS  plan-1: 1 of 1 action, 1 file, +1 -1 lines\n")
    assert "  changed   settings.json\n" in done.out
    assert "remit rollback last" in done.out
    assert (project / "settings.json").read_text() == AFTER
    (folder,) = (project / "agent_outputs/reports").iterdir()
    assert f"  report    agent_outputs/reports/{folder.name}/\n" in done.out
    again = remit("apply", "envelope.json", "--json")
    assert again.code == 0
    assert set(again.document) == {"status", "report", "errors", "stored", "taken_back", "settled"}
    assert (again.document["stored"], again.document["taken_back"], again.document["settled"]) == (True, None, [])
    assert CompletionStatus.from_tree(again.document["status"]).status == "SUCCESS"
    assert ExecutionReport.from_tree(again.document["report"]).actions_summary.completed == 1
    told = remit("apply", "envelope.json")
    assert told.err.startswith("Already applied; nothing was changed.")
    assert envelope.envelope_id in told.out
    assert remit("ledger", "verify").code == 0


@pytest.mark.req("PX-02")
def test_an_envelope_that_was_changed_is_refused_with_exit_2(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update()), "-o", "envelope.json")
    envelope = project / "envelope.json"
    envelope.write_text(envelope.read_text().replace('"value":5', '"value":6'))
    refused = remit("apply", "envelope.json")
    assert (refused.code, refused.out) == (2, "")
    assert "1003" in refused.err
    document = remit("apply", "envelope.json", "--json").document
    assert [error["error_code"] for error in document["errors"]] == [1003]
    envelope.write_text("no json")
    assert remit("apply", "envelope.json").code == 2
    assert (project / "settings.json").read_text() == BEFORE


@pytest.mark.req("PX-06")
def test_a_protected_file_needs_its_flag_and_an_idle_flag_is_refused(remit: Remit, project: Path) -> None:
    shown = remit("preview", put(project, change_env()))
    assert shown.code == 0
    assert "give: --allow-protected .env" in shown.out
    refused = approve(remit, "plan.json", "-o", "envelope.json")
    assert refused.code == 2
    assert not (project / "envelope.json").exists()
    assert applied(remit, "plan.json", "--allow-protected", ".env").code == 0
    assert (project / ".env").read_text() == "REGION=south\n"
    idle = approve(remit, put(project, update()), "--allow-protected", ".env")
    assert idle.code == 2, idle


@pytest.mark.req("PX-13", "PX-11")
def test_a_plan_that_fails_is_rolled_back_and_says_so(remit: Remit, project: Path) -> None:
    rule = {"type": "file_exists", "path": "missing.txt"}
    done = applied(remit, put(project, update(), create("new/file.txt"), validation_rules=[rule]))
    assert done.code == 1, done
    lines = done.out.splitlines()
    assert lines[0].startswith("ROLLED_BACK  plan-1")
    assert "1201 RULE_FAILED" in lines[1]
    assert "everything is as before" in done.out
    assert (project / "settings.json").read_text() == BEFORE
    assert not (project / "new").exists()


def test_run_needs_a_person_to_ask_or_the_yes_option(remit: Remit, project: Path) -> None:
    plan = put(project, update())
    refused = remit("run", plan)
    assert refused.code == 3, refused
    assert "there is no terminal" in refused.err
    assert "1002 NOT_APPROVED" in refused.err
    assert remit("run", plan, "--json").document["error"]["what"]
    assert (project / "settings.json").read_text() == BEFORE
    done = remit("run", plan, "--yes")
    assert done.code == 0, done
    assert done.out.index('+  "retries": 5') < done.out.index("SUCCESS  plan-1")
    assert (project / "settings.json").read_text() == AFTER


def test_run_names_the_flags_that_are_missing_before_it_asks(remit: Remit, project: Path) -> None:
    refused = remit("run", put(project, change_env()), "--yes")
    assert refused.code == 2
    assert "--allow-protected .env" in refused.err
    assert remit("run", "plan.json", "--yes", "--allow-protected", ".env").code == 0


@pytest.mark.parametrize("answer, code", [("y\n", 0), ("n\n", 2), ("\n", 2), ("\x03", 2)], ids=repr)
def test_run_asks_a_person_and_only_an_approval_applies_the_plan(
    remit: Remit, project: Path, answer: str, code: int
) -> None:
    seen = run_in_terminal(
        project, "run", put(project, update()), answers=(TypedAnswer("Apply this plan? [y/N]", answer),)
    )
    assert (seen.code, seen.answered) == (code, True), seen
    assert "\x1b[32m" in seen.shown
    assert (project / "settings.json").read_text() == (AFTER if code == 0 else BEFORE)


@pytest.mark.req("PX-29", "PV-07")
def test_an_approval_of_one_diff_is_not_valid_for_another(remit: Remit, project: Path) -> None:
    other = BEFORE.replace("3", "4")
    meanwhile = TypedAnswer("[y/N]", "y\n", lambda: (project / "settings.json").write_text(other))
    seen = run_in_terminal(project, "run", put(project, update()), answers=(meanwhile,))
    assert (seen.code, seen.answered) == (2, True), seen
    assert "something changed while the preview was shown: settings.json (other content)" in seen.shown
    assert (project / "settings.json").read_text() == other
    assert "envelope.issued" not in remit("ledger", "show").out, "nothing was signed"


@pytest.mark.req("PX-15")
def test_a_plan_is_rolled_back_once(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update(), create("new/file.txt"))).code == 0
    back = remit("rollback", "last")
    assert back.code == 0, back
    assert back.out.startswith("EXECUTED  ")
    assert (project / "settings.json").read_text() == BEFORE
    assert not (project / "new").exists()
    again = remit("rollback", "last")
    assert again.code == 0, again
    assert "nothing was changed now" in again.err
    document = remit("rollback", "last", "--json").document
    added = {name: document.pop(name) for name in ("stored", "set_aside", "settled")}
    assert added == {"stored": True, "set_aside": [], "settled": []}
    assert RollbackOutcome.from_tree(document).status == "EXECUTED"


@pytest.mark.req("PX-16")
def test_a_file_that_was_changed_since_is_restored_by_force_only(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    (project / "settings.json").write_text("mine\n")
    refused = remit("rollback", "last")
    assert refused.code == 2, refused
    assert "2009" in refused.out + refused.err
    assert "settings.json" in refused.out + refused.err
    assert (project / "settings.json").read_text() == "mine\n"
    assert remit("rollback", "last", "--force").code == 0
    assert (project / "settings.json").read_text() == BEFORE
    kept = [path.read_text() for path in project.glob("agent_outputs/reports/*/backups/*drifted*")]
    assert kept == ["mine\n"]


def test_a_report_is_found_by_folder_and_by_either_id_and_else_refused(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    (folder,) = (project / "agent_outputs/reports").iterdir()
    status = json.loads((folder / "status.json").read_text())
    for name in (str(folder), f"agent_outputs/reports/{folder.name}", status["envelope_id"], status["report_id"]):
        assert remit("rollback", name).code == 0, name
    assert remit("rollback", "no-such-report").code == 2


def test_an_envelope_that_was_not_used_is_void_after_cancel(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update()), "-o", "envelope.json")
    name = json.loads((project / "envelope.json").read_text())["envelope_id"]
    told = remit("cancel", name)
    assert (told.code, told.out) == (0, f"Envelope {name} was not used. It is void now.\n")
    refused = remit("apply", "envelope.json", "--json")
    assert (refused.code, refused.document["errors"][0]["error_code"]) == (2, 1002)
    assert remit("cancel", "no-such-envelope").code == 2


def test_cancelling_a_finished_plan_comes_too_late(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    name = json.loads((project / "envelope.json").read_text())["envelope_id"]
    told = remit("cancel", name)
    assert told.code == 1, told
    assert told.out.startswith("SUCCESS  plan-1")


SLOW = """
import sys, time
from remit import Workspace
from remit.cli.plans import commands as plan
original = Workspace.apply
def slowly(self, envelope, **hooks):
    def tell(update):
        if update.phase == "RUNNING":
            print("running", file=sys.stderr, flush=True)
            time.sleep(1)
    hooks["on_status"] = tell
    return original(self, envelope, **hooks)
Workspace.apply = slowly
from remit.cli import main
main(["apply", "envelope.json"])
"""


def interrupted(project: Path, program: str, by: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
    """The program says when it has come to the point where somebody presses Ctrl-C, or a machine asks it to end."""
    environ = {**os.environ, "REMIT_STATE": str(project.parent / "state")}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=project,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as applying:
        assert applying.stderr is not None
        assert applying.stderr.readline() == "running\n"
        applying.send_signal(by)
        out, err = applying.communicate(timeout=60)
    return applying.returncode, out, err


def test_ctrl_c_undoes_everything(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update(), create("new/file.txt")), "-o", "envelope.json")
    code, out, err = interrupted(project, SLOW)
    assert code == 1, (out, err)
    assert "Cancelling; if it is not too late, all changes will be undone." in err
    assert out.startswith("CANCELLED  plan-1")
    assert (project / "settings.json").read_text() == BEFORE
    assert not (project / "new").exists()


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_before_anything_was_begun_leaves_the_approval_unused(
    remit: Remit, project: Path, *, as_json: bool
) -> None:
    approve(remit, put(project, update()), "-o", "envelope.json")
    early = SLOW.replace('"RUNNING"', '"CHECKING"')
    code, out, err = interrupted(project, early.replace('.json"]', '.json", "--json"]') if as_json else early)
    assert code == 1, (out, err)
    if as_json:
        document = json.loads(out)
        assert (document["status"], document["errors"][0]["error_code"]) == ("CANCELLED", 5006)
    else:
        assert out.startswith("CANCELLED  envelope ")
        assert "The approval was not used" in out
    assert (project / "settings.json").read_text() == BEFORE
    assert remit("apply", "envelope.json").code == 0


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point, state", [("road.effect_done", "finished"), ("road.intent_recorded", "cleared")])
def test_recover_settles_a_plan_that_was_killed(remit: Remit, project: Path, point: str, state: str) -> None:
    approve(remit, put(project, update()), "-o", "envelope.json")
    assert remit("apply", "envelope.json", REMIT_FAULT=point).code == -signal.SIGKILL
    told = remit("recover", "--json")
    assert told.code == 0, told
    (report,) = told.document
    assert (report["kind"], report["state"], report["problem"]) == ("plan", state, None)
    assert report["result"]["status"] == ("SUCCESS" if state == "finished" else "ROLLED_BACK")
    assert (project / "settings.json").read_text() == (AFTER if state == "finished" else BEFORE)
    assert remit("recover").out == "Nothing was left unfinished.\n"
    assert not list(project.rglob(".remit-*"))


@pytest.mark.req("PX-32")
def test_prune_removes_the_backups_of_rolled_back_plans_and_nothing_else(remit: Remit, project: Path) -> None:
    assert remit("prune").out == "There is nothing to delete.\n"
    assert applied(remit, put(project, update())).code == 0
    assert remit("rollback", "last").code == 0
    time.sleep(0.01)  # another moment, another report folder
    assert applied(remit, "plan.json").code == 0
    would = remit("prune", "--dry-run")
    assert would.code == 0
    assert "Would delete" in would.out
    assert len(list(project.glob("agent_outputs/reports/*/backups/*.bak"))) == 2
    assert len(remit("prune", "--json").document) == 1
    assert len(list(project.glob("agent_outputs/reports/*/backups/*.bak"))) == 1
    assert len(list(project.glob("agent_outputs/reports/*/rollback_manifest.json"))) == 2
    assert remit("rollback", "last").code == 0


def test_the_ledger_tells_a_plan_in_words(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    assert remit("rollback", "last").code == 0
    shown = remit("ledger", "show", COLUMNS="240").out
    assert re.search(r"envelope\.issued .*plan-1, until ", shown)
    assert re.search(r"plan\.outcome .*SUCCESS, 1 of 1 action", shown)
    assert re.search(r"rollback\.outcome .*EXECUTED, 1 checkpoint as before the plan", shown)
