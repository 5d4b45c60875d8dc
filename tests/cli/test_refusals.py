"""A refusal of the plan door has one shape, for people and for programs; what is missing is told all at once."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import NO_DIGEST, Remit, approve
from tests.cli.test_plan_commands import BEFORE, applied, change_env, create, project, put, update

__all__ = ["project"]

SHAPE = {"reason", "what", "where", "next_step", "code", "type"}


def program() -> dict[str, Any]:
    operation = {"type": "write", "content": "#!/bin/sh\necho\n"}
    return {"action_type": "FILE_CREATE", "target": "my run.sh", "operation": operation}


def failing_in_part(project: Path, **flags: bool) -> str:
    return put(project, update(), update(target="gone.json"), execution_instructions={"stop_on_error": False, **flags})


def changed_envelope(remit: Remit, project: Path) -> None:
    assert approve(remit, put(project, update()), "-o", "envelope.json").code == 0
    path = project / "envelope.json"
    path.write_text(path.read_text().replace('"value":5', '"value":6'))


@pytest.mark.parametrize("command", ["preview", "approve", "apply", "rollback"])
def test_people_and_programs_get_one_shape(remit: Remit, project: Path, command: str) -> None:
    arguments: tuple[str, ...]
    if command == "apply":
        changed_envelope(remit, project)
        arguments = ("apply", "envelope.json")
    elif command == "rollback":
        assert applied(remit, put(project, update())).code == 0
        (project / "settings.json").write_text("mine\n")
        arguments = ("rollback", "last")
    else:
        named = ("--digest", NO_DIGEST) if command == "approve" else ()
        arguments = (command, put(project, create("../outside.txt")), *named)
    told = remit(*arguments)
    assert (told.code, told.out) == (2, "")
    labels = re.findall(r"^ *(\w+):", told.err, re.MULTILINE)
    assert labels[0] == "refused"
    assert set(labels) <= {"refused", "where", "code", "next"}
    assert {"code", "where"} <= set(labels)
    document = remit(*arguments, "--json").document
    assert set(document["error"]) == SHAPE
    assert f"{document['error']['code']} {document['error']['type']}" in told.err
    assert document["error"]["what"] in told.err
    if command in {"apply", "rollback"}:
        assert document["errors"][0]["error_code"] == document["error"]["code"]


def test_the_wrong_document_is_recognised(remit: Remit, project: Path) -> None:
    told = remit("apply", put(project, update()))
    assert told.code == 2
    assert "this is a plan, but an envelope is needed here" in told.err
    assert "remit approve plan.json -o envelope.json" in told.err
    assert approve(remit, "plan.json", "-o", "envelope.json").code == 0
    assert "remit apply envelope.json" in remit("preview", "envelope.json").err


def given_command(text: str) -> list[str]:
    """What the message says to type, as a shell would run it."""
    (line,) = [line for line in text.splitlines() if line.startswith("  next:")]
    command = "remit" + line.partition(": remit")[2]
    split = subprocess.run(
        ["bash", "-c", f"remit() {{ printf '%s\\0' \"$@\"; }}; {command}"], capture_output=True, check=True
    )
    return split.stdout.decode().split("\0")[:-1]


@pytest.mark.req("PX-06")
def test_all_missing_approvals_are_listed_at_once_with_a_command_that_works(remit: Remit, project: Path) -> None:
    plan = put(project, change_env(), program())
    told = approve(remit, plan, "-o", "my envelope.json", "--minutes", "5")
    assert told.code == 2
    assert ".env (protected), my run.sh (executable)" in told.err
    assert not (project / "my envelope.json").exists()
    again = given_command(told.err)
    assert remit(*again).code == 0
    envelope = json.loads((project / "my envelope.json").read_text())
    assert envelope["approvals"]["protected"] == [".env"]
    assert envelope["approvals"]["executable"] == ["my run.sh"]


def test_an_approval_that_was_given_is_not_asked_for_again(remit: Remit, project: Path) -> None:
    told = remit("run", put(project, change_env(), program()), "--allow-protected", "./.env")
    assert told.code == 2
    assert "  allowed   protected: .env\n" in told.out
    assert "give: --allow-protected" not in told.out
    assert "give: --allow-executable 'my run.sh'" in told.out
    assert ".env (protected)" not in told.err


@pytest.mark.parametrize("back, left", [(False, "would be done and would stay"), (True, "would be undone")])
def test_a_plan_that_would_fail_in_part_is_approved_on_request_only(
    remit: Remit, project: Path, *, back: bool, left: str
) -> None:
    plan = failing_in_part(project, rollback_on_failure=back)
    told = approve(remit, plan, "-o", "envelope.json")
    assert told.code == 2
    assert "a2 would fail" in told.err
    assert left in told.err
    assert "2001" in told.err
    assert not (project / "envelope.json").exists()
    assert remit("run", plan, "--yes").code == 2
    assert (project / "settings.json").read_text() == BEFORE
    assert remit(*given_command(told.err)).code == 0
    assert remit("apply", "envelope.json").code == 1


def test_a_plan_that_would_stop_is_never_approved(remit: Remit, project: Path) -> None:
    told = approve(remit, put(project, update(target="gone.json")), "-o", "envelope.json", "--even-if-it-fails")
    assert told.code == 2
    assert "nothing would be changed at all" in told.err
    assert not (project / "envelope.json").exists()


def test_a_forced_rollback_says_what_it_kept_and_where(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    (project / "settings.json").write_text("mine\n")
    told = remit("rollback", "last", "--force")
    assert told.code == 0, told
    (place,) = re.findall(r"^  kept      settings\.json as it was, as (.*)$", told.out, re.MULTILINE)
    assert (project / place).read_text() == "mine\n"


def test_cancelling_too_late_says_so(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    name = json.loads((project / "envelope.json").read_text())["envelope_id"]
    told = remit("cancel", name)
    assert told.code == 1
    assert told.err.startswith("Too late to cancel")


def test_a_repeated_apply_says_that_the_plan_was_rolled_back_since(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    assert remit("rollback", "last").code == 0
    told = remit("apply", "envelope.json")
    assert "All of it was rolled back since" in told.err
    assert "remit rollback" not in told.out
    assert remit("apply", "envelope.json", "--json").document["taken_back"]["whole"] is True


def test_a_rule_that_fails_is_reported_once(remit: Remit, project: Path) -> None:
    done = applied(remit, put(project, update(), validation_rules=[{"type": "file_exists", "path": "missing.txt"}]))
    assert done.code == 1
    assert done.out.count("does not hold") == 1


def test_long_diffs_are_cut_unless_they_are_asked_for(remit: Remit, project: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(100))
    operation = {"type": "write", "content": text}
    long = {"action_type": "FILE_CREATE", "target": "long.txt", "operation": operation}
    plan = put(project, update(), long)
    shown = remit("preview", plan).out
    assert "... 63 more lines: --full\n" in shown
    assert "+line 99" not in shown
    assert shown.index("a2: create long.txt") < shown.index('+  "retries": 5')
    assert re.search(r"a2: create long\.txt +\+100 +-0\n", shown)
    assert "+line 99\n" in remit("preview", plan, "--full").out
    short = remit("preview", plan, "--no-diff").out
    assert "+line" not in short
    assert re.search(r"a1: change settings\.json +\+1 +-1\n", short)
    assert remit("preview", plan, "--no-diff", "--full").code == 2


def test_the_reported_cost_is_the_time_that_the_caller_waited(remit: Remit, project: Path) -> None:
    done = applied(remit, put(project, update()))
    found = re.search(r"took      ([\d.,]+) (ms|s) in all, ([\d,]+) ms for the run;", done.out)
    assert found is not None, done.out
    felt = float(found[1].replace(",", "")) * (1 if found[2] == "ms" else 1_000)
    assert felt > float(found[3].replace(",", ""))
    again = remit("apply", "envelope.json")
    assert "in all" not in again.out


def test_a_workspace_without_a_state_directory_names_every_variable_that_places_it(
    remit: Remit, tmp_path: Path
) -> None:
    assert remit("init").code == 0
    lost = remit("runs", REMIT_STATE="", XDG_STATE_HOME=str(tmp_path / "elsewhere"))
    assert lost.code != 0
    for variable in ("REMIT_STATE", "XDG_STATE_HOME", "HOME"):
        assert re.search(rf"next:.*\b{variable}\b", lost.err), (variable, lost.err)
