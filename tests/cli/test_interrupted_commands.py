"""Ctrl-C and SIGTERM in commands that commit something: a message that is true, with a code and the next step."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandResult, Remit, approve
from tests.cli.test_plan_commands import AFTER, BEFORE, applied, create, project, put, update

__all__ = ["project"]

SIGNAL_AT_FAULT = """
import itertools, os, sys
from remit.core import faultpoints
number, times = int(sys.argv.pop(1)), itertools.count(1)
def send_signal(name, target):
    if next(times) == target[1]:
        os.kill(os.getpid(), number)
faultpoints._fire = send_signal
from remit.cli import main
main(sys.argv[1:])
"""


def run_until(
    project: Path, point: str, *arguments: str, by: signal.Signals = signal.SIGINT, program: str = SIGNAL_AT_FAULT
) -> CommandResult:
    """Run `remit`, which sends itself a signal at a fault point."""
    environ = {"REMIT_STATE": str(project.parent / "state"), "REMIT_FAULT": point, "COLUMNS": "200"}
    ran = subprocess.run(
        [sys.executable, "-c", program, str(int(by)), *arguments],
        cwd=project,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return CommandResult(ran.returncode, ran.stdout, ran.stderr)


def propose(remit: Remit, project: Path) -> tuple[str, str]:
    """Propose a plan. Return the id of the proposal, and the digest of its preview."""
    proposal = remit("propose", put(project, update()), "--json").document["proposal_id"]
    shown = remit("approvals", "show", proposal, "--full", "--json").document
    return proposal, shown["preview"]["preview_digest"]


@pytest.mark.parametrize("point", ["road.effect_done", "road.outcome_recorded", "append.committed:2"])
def test_an_interrupted_rollback_claims_no_outcome(remit: Remit, project: Path, point: str) -> None:
    assert applied(remit, put(project, update())).code == 0
    ran = run_until(project, point, "rollback", "last")
    assert ran.code == 1, ran
    assert "not known" in ran.err
    assert "were undone" not in ran.err
    assert "remit recover" in ran.err
    assert "remit runs" in ran.err
    assert remit("recover").code == 0
    is_back = (project / "settings.json").read_text() == BEFORE
    assert ("rolled back" in remit("runs").out) is is_back


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_approval_says_how_to_see_it(remit: Remit, project: Path, by: signal.Signals) -> None:
    proposal, digest = propose(remit, project)
    ran = run_until(project, "proposal.answered", "approvals", "approve", proposal, "--full", "--digest", digest, by=by)
    assert ran.code == (1 if by is signal.SIGINT else -by), ran
    assert "not known" in ran.err
    assert "  code:  cancelled" in ran.err
    assert f"remit approvals show {proposal}" in ran.err
    assert "APPROVED" in remit("approvals", "show", proposal).out


def test_an_interruption_is_one_json_document_for_programs(remit: Remit, project: Path) -> None:
    proposal, _ = propose(remit, project)
    ran = run_until(project, "proposal.answered", "approvals", "deny", proposal, "--json")
    assert (ran.code, ran.err) == (1, ""), ran
    assert ran.document["error"]["reason"] == "cancelled"
    assert ran.document["error"]["next_step"].endswith(f"remit approvals show {proposal}")


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_approve_leaves_no_temporary_file(remit: Remit, project: Path, by: signal.Signals) -> None:
    digest = remit("preview", put(project, update()), "--full", "--json").document["digest"]
    before = sorted(path.name for path in project.iterdir())
    arguments = ("approve", "plan.json", "-o", "envelope.json", "--full", "--digest", digest)
    ran = run_until(project, "append.committed", *arguments, by=by)
    assert ran.code == (1 if by is signal.SIGINT else -by), ran
    assert sorted(path.name for path in project.iterdir()) == before
    assert "5006 CANCELLED" in ran.err
    assert "remit ledger show" in ran.err


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_export_that_sigterm_ends_leaves_no_temporary_file(remit: Remit, project: Path, by: signal.Signals) -> None:
    slow = SIGNAL_AT_FAULT.replace(
        "from remit.cli import main",
        "from remit.cli import ledger, main\n"
        "def interrupt(*arguments, **parameters):\n    os.kill(os.getpid(), number)\n"
        "ledger.write_bundle = interrupt",
    )
    before = sorted(path.name for path in project.iterdir())
    ran = run_until(project, "append.begun", "ledger", "export", "-o", "bundle.jsonl", by=by, program=slow)
    assert ran.code == (1 if by is signal.SIGINT else -by), ran
    assert sorted(path.name for path in project.iterdir()) == before


def test_an_interrupted_cancel_says_how_to_see_it(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update()), "-o", "envelope.json")
    name = json.loads((project / "envelope.json").read_text())["envelope_id"]
    ran = run_until(project, "append.committed", "cancel", name)
    assert ran.code == 1, ran
    assert "not known" in ran.err
    assert "5006 CANCELLED" in ran.err
    assert "remit ledger show" in ran.err
    assert remit("apply", "envelope.json").code == 2


def test_an_interrupted_rotation_says_how_to_see_the_keys(remit: Remit, project: Path) -> None:
    ran = run_until(project, "keys.keyring_written", "keys", "rotate", "kernel")
    assert ran.code == 1, ran
    assert "not known" in ran.err
    assert "remit keys list" in ran.err


def test_an_interrupted_proposal_says_where_to_look_for_it(remit: Remit, project: Path) -> None:
    ran = run_until(project, "proposal.made", "propose", put(project, update()))
    assert ran.code == 1, ran
    assert "not known" in ran.err
    assert "remit approvals list --plans" in ran.err
    assert "plan-1" in remit("approvals", "list", "--plans").out


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_proposal_whose_preview_is_stopped_is_proposed(
    remit: Remit, project: Path, by: signal.Signals, option: tuple[str, ...]
) -> None:
    slow = SIGNAL_AT_FAULT.replace(
        "from remit.cli import main",
        "from remit.services.plans.service import PlanService\n"
        "PlanService.finish_previews = lambda self, seconds: os.kill(os.getpid(), number)\n"
        "from remit.cli import main",
    )
    ran = run_until(project, "road.settled", "propose", put(project, update()), *option, by=by, program=slow)
    assert ran.code == (1 if by is signal.SIGINT else -by), ran
    found = ran.document["proposal_id"] if option else ran.out.split()[1].rstrip(":")
    assert "Aborted" not in ran.err
    assert "The plan is proposed" in ran.err
    assert f"remit approvals show {found}" in ran.err
    assert remit("approvals", "show", found, "--json").document["proposal"]["state"] == "PENDING"


def test_a_computation_that_is_interrupted_after_it_was_stored_does_not_claim_that_nothing_changed(
    remit: Remit, project: Path
) -> None:
    proposal, _ = propose(remit, project)
    ran = run_until(project, "proposal.previewed", "approvals", "compute", proposal)
    assert ran.code == 1, ran
    assert "Nothing was changed" not in ran.err
    assert f"remit approvals show {proposal}" in ran.err


def test_a_signal_that_comes_too_late_promises_nothing(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update(), create("new/file.txt")), "-o", "envelope.json")
    ran = run_until(project, "road.outcome_recorded", "apply", "envelope.json")
    assert ran.code == 0, ran
    assert ran.out.startswith("SUCCESS  plan-1")
    assert (project / "settings.json").read_text() == AFTER
    assert "Cancelling; if it is not too late, all changes will be undone." in ran.err


def test_an_interrupted_command_that_only_reads_still_ends_with_1(remit: Remit, project: Path) -> None:
    ran = run_until(project, "append.begun", "ledger", "verify", program=READING)
    assert (ran.code, ran.err.strip()) == (1, "Aborted!"), ran


READING = SIGNAL_AT_FAULT.replace(
    "from remit.cli import main",
    "from remit.cli import ledger, main\n"
    "def interrupt(*arguments, **parameters):\n    os.kill(os.getpid(), number)\n"
    "ledger._workspace_keyring = ledger.verify_store = interrupt\n"
    "from remit.workspace.workspace import Workspace\nWorkspace.open = interrupt",
)
