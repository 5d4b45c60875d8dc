"""`remit doctor`: what it prints, and how it exits."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from remit.cli import doctor as doctor_command
from remit.cli import main
from remit.cli.doctor import examine
from remit.core.ids import system_clock
from remit.diagnostics import browser as browser_checks
from remit.diagnostics import disk as disk_checks
from remit.diagnostics import goals as goal_checks
from remit.diagnostics import machine as machine_checks
from remit.diagnostics import web as web_checks
from remit.diagnostics import workspace as workspace_checks
from remit.diagnostics.check import Topic
from remit.diagnostics.checkup import Checkup, check_machine
from tests.diagnostics.sound_workspace import ROOT, SoundWorkspace, change, checks_by_name, key_file


def _run(sound_workspace: SoundWorkspace, *arguments: str) -> Any:
    return CliRunner().invoke(
        main, ["doctor", "-C", str(sound_workspace.root), *arguments], env=sound_workspace.environ
    )


def _machine_passes() -> bool:
    return not Checkup(check_machine(os.environ, system_clock)).count("fail")


def test_the_command_shows_both_groups_a_word_for_each_status_and_a_summary(sound_workspace: SoundWorkspace) -> None:
    done = _run(sound_workspace)
    assert done.exit_code == (0 if _machine_passes() else 1)
    for part in (
        "Machine",
        "Workspace",
        "✓ ok",
        "Landlock",
        "key files",
        "nothing failed." if _machine_passes() else "",
    ):
        assert part in done.output


def test_the_command_fails_when_something_needed_failed_and_says_what_to_do(sound_workspace: SoundWorkspace) -> None:
    key_file(sound_workspace.state).chmod(0o644)
    done = _run(sound_workspace)
    assert done.exit_code == 1
    assert "✗ fail key files (for keeping private keys private):" in done.output
    assert "remit keys rotate ROLE --revoke" in done.output
    assert "Not ready" in done.output


def test_for_programs_there_is_one_document_with_the_same_exit_code(sound_workspace: SoundWorkspace) -> None:
    change(sound_workspace, "DELETE FROM schema_migrations")
    done = _run(sound_workspace, "--json")
    document = json.loads(done.stdout)
    assert done.exit_code == 1
    assert document["passed"] is False
    (tables,) = [check for check in document["workspace"] if check["name"] == "tables"]
    assert tables["status"] == "fail"
    assert tables["next_step"] == "Run `remit migrate`, after a backup."
    assert sum(document["counts"].values()) == len(document["machine"]) + len(document["workspace"])
    assert all(
        check["next_step"] for group in ("machine", "workspace") for check in document[group] if check["status"] != "ok"
    )


def test_without_a_workspace_the_machine_is_checked_and_the_way_to_one_is_shown(tmp_path: Path) -> None:
    environ = {"REMIT_STATE": str(tmp_path / "not" / "yet"), "PATH": os.environ["PATH"]}
    found = examine(tmp_path, environ, system_clock)
    (only,) = found.workspace
    assert (only.name, only.status) == ("workspace", "absent")
    assert "remit init" in only.next_step
    machine_checks = checks_by_name(found.machine)
    assert machine_checks["state directory"].found == f"will be created in {tmp_path}/not/yet"
    assert machine_checks["file system"].status != "fail"
    assert list(tmp_path.iterdir()) == []


def test_a_state_home_given_as_a_relative_path_is_a_failed_check(tmp_path: Path) -> None:
    found = examine(tmp_path, {"REMIT_STATE": "here", "PATH": ""}, system_clock)
    check = checks_by_name(found.machine)["state directory"]
    assert (check.status, "full path" in check.next_step) == ("fail", True)


def test_standing_in_the_home_folder_is_no_fault(tmp_path: Path) -> None:
    """The state lies below the home folder: that overlaps no workspace, for there is none."""
    found = examine(tmp_path, {"HOME": str(tmp_path), "PATH": ""}, system_clock)
    assert checks_by_name(found.machine)["state directory"].status == "ok"


def test_hostile_names_reach_no_terminal_as_escapes(tmp_path: Path) -> None:
    folder = tmp_path / "\x1b[2Jevil\n\u202e"
    folder.mkdir()
    done = CliRunner().invoke(main, ["doctor", "-C", str(folder)], env={"REMIT_STATE": str(tmp_path / "state")})
    assert "\x1b" not in done.output
    assert "\u202e" not in done.output


def test_a_terminal_without_unicode_gets_plain_marks(sound_workspace: SoundWorkspace) -> None:
    environ = {**os.environ, **sound_workspace.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "remit", "doctor", "-C", str(sound_workspace.root)]
    done = subprocess.run(command, env=environ, capture_output=True, check=False)
    assert done.stderr == b""
    assert b"+ ok" in done.stdout


def test_a_checkup_is_quick(sound_workspace: SoundWorkspace) -> None:
    """Processor time, a browser's start included: on a busy machine the wall clock tells of others' work."""
    environ = {
        **sound_workspace.environ,
        **os.environ,
        "REMIT_STATE": sound_workspace.environ["REMIT_STATE"],
        "PYTHONPATH": f"{ROOT}/src",
    }
    before = os.times()
    command = [sys.executable, "-m", "remit", "doctor", "--json", "-C", str(sound_workspace.root)]
    subprocess.run(command, env=environ, capture_output=True, check=False)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert 0 < spent < 1.5


def test_the_how_to_page_names_every_check() -> None:
    page = (ROOT / "docs/how-to/check-a-machine.md").read_text(encoding="utf-8")
    rooms = (machine_checks, disk_checks, workspace_checks, web_checks, browser_checks, goal_checks, doctor_command)
    topics = {topic.name for room in rooms for topic in vars(room).values() if isinstance(topic, Topic)}
    assert len(topics) > 25
    listed = set(re.findall(r"^\| ([^|]+?) \|", page, re.MULTILINE)) - {"mark", "check", "---", "✓", "!", "✗", "·"}
    of_each = {"connection", "pipeline", "web secrets"}  # as many as remit.yaml has, by their names
    assert listed == topics | of_each
