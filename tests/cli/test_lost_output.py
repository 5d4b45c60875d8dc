"""An output that cannot be written, and a full disk: the message claims only what is known, and says how to see it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from remit.cli.common.next_steps import COMMITTING, READING, how_to_see
from remit.cli.common.permissions import COMMAND_PERMISSIONS
from tests.cli.conftest import Remit, approve
from tests.cli.test_plan_commands import AFTER, BEFORE, project, put, update
from tests.support import preloaded

__all__ = ["project"]

UNNAMED_FAULT = """
import sys
from remit.core import faultpoints
faultpoints.InjectedFaultError = lambda number, what, name: OSError(number, "No space left on device")
from remit.cli import main
main(sys.argv[1:])
"""


def run_with_full_output(project: Path, *arguments: str, stream: str = "stdout") -> tuple[int, str]:
    """Run `remit` with a standard output, or standard error, to which nothing can be written."""
    with open("/dev/full", "wb") as full:
        other = "stderr" if stream == "stdout" else "stdout"
        ran = subprocess.run(
            [preloaded.remit(), *arguments],
            cwd=project,
            env={**os.environ, "REMIT_STATE": str(project.parent / "state"), "COLUMNS": "120"},
            timeout=60,
            check=False,
            **{stream: full, other: subprocess.PIPE},  # type: ignore[call-overload]
        )
    return ran.returncode, (ran.stderr if stream == "stdout" else ran.stdout).decode()


def run_with_unnamed_fault(project: Path, fault: str, *arguments: str) -> tuple[int, str]:
    """Run `remit` with a fault whose error has no file name, as that of a failed write has none."""
    ran = subprocess.run(
        [sys.executable, "-c", UNNAMED_FAULT, *arguments],
        cwd=project,
        env={**os.environ, "REMIT_STATE": str(project.parent / "state"), "REMIT_FAULT": f"{fault}:error"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stderr


def test_a_run_whose_preview_cannot_be_shown_does_not_claim_that_it_was_applied(remit: Remit, project: Path) -> None:
    code, told = run_with_full_output(project, "run", put(project, update()), "--yes")
    assert code == 1
    assert (project / "settings.json").read_text() == BEFORE
    assert told.splitlines()[0] == "failed: the output could not be written: No space left on device"
    assert "did its work" not in told.replace("not known whether the command did its work", "")
    assert "remit recover" in told
    assert "remit runs" in told


def test_an_apply_whose_report_is_lost_says_how_to_see_it(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update()), "-o", "envelope.json")
    code, told = run_with_full_output(project, "apply", "envelope.json")
    assert code == 1
    assert (project / "settings.json").read_text() == AFTER
    assert "It is not known whether the command did its work" in told
    assert "remit runs" in told


def test_a_command_that_only_reads_needs_no_look_at_the_state(remit: Remit, project: Path) -> None:
    code, told = run_with_full_output(project, "preview", put(project, update()))
    assert code == 1
    assert told.splitlines()[0] == "failed: the output could not be written: No space left on device"
    assert "not known" not in told


def test_the_next_step_names_the_workspace_and_the_request(remit: Remit, project: Path) -> None:
    put(project, update())
    proposal = remit("propose", "plan.json", "--json").document["proposal_id"]
    code, told = run_with_full_output(project, "approvals", "deny", proposal, "-C", "../project")
    assert code == 1
    assert f"remit approvals show -C ../project {proposal}" in told
    assert remit("approvals", "show", proposal, "--json").document["proposal"]["state"] == "DENIED"


@pytest.mark.parametrize("point", ["road.effect_done", "road.noted", "append.inserted:2"])
def test_a_full_disk_in_the_engine_is_no_lost_output(remit: Remit, project: Path, point: str) -> None:
    plan = put(project, update())
    code, told = run_with_unnamed_fault(project, point if ":" in point else f"{point}:1", "run", plan, "--yes")
    assert code == 1, told
    assert "output" not in told
    assert "5005" in told or "DISK_FULL" in told, told
    assert "remit recover" in told
    assert remit("recover").code == 0


def test_a_full_disk_while_a_key_is_written_says_how_to_see_the_keys(remit: Remit, project: Path) -> None:
    code, told = run_with_unnamed_fault(project, "keys.private_written:1", "keys", "rotate", "audit")
    assert code == 1, told
    assert "output" not in told
    assert "  code:  disk_full" in told
    assert "remit keys list" in told


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_server_whose_address_cannot_be_shown_stops_with_one_message(
    remit: Remit, project: Path, option: tuple[str, ...]
) -> None:
    code, told = run_with_full_output(project, "serve", "--port", "0", *option)
    assert code == 1
    assert told.splitlines() == [
        "Starting ...",
        "failed: the output could not be written: No space left on device",
        "  next:  Free some disk space, or redirect the output.",
    ]
    assert remit("recover").code == 0


def test_every_command_is_known_to_read_or_to_commit() -> None:
    assert not set(COMMITTING) & READING
    assert set(COMMITTING) | READING == set(COMMAND_PERMISSIONS)
    for path in COMMITTING:
        step = how_to_see(path, {"directory": Path("a b"), "approval_id": "x", "envelope_id": "y"})
        assert "remit " in step, path
        assert "{" not in step, path


def test_an_agent_is_sent_to_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REMIT_TOKEN", raising=False)
    monkeypatch.delenv("REMIT_AGENT", raising=False)
    assert how_to_see("apply", {}).startswith("First finish or undo")
    monkeypatch.setenv("REMIT_TOKEN", "a token")
    assert how_to_see("apply", {}).startswith("Ask a person to look. ")
