"""Four eyes at the command line: allowed without a setting, and refused where `approvals.allow_own` is false."""

import json
from pathlib import Path

import pytest

from remit.core.errors import Reason, RefusedError
from remit.workspace.workspace import Workspace
from tests.cli.conftest import CommandResult, Remit, approve

pytestmark = pytest.mark.req("PV-04")
PLAN = {
    "plan_id": "plan-1",
    "action_plan": [
        {
            "action_id": "a1",
            "action_type": "FILE_CREATE",
            "target": "new.txt",
            "operation": {"type": "write", "content": "new\n"},
        }
    ],
}


@pytest.fixture
def project(remit: Remit, tmp_path: Path) -> Path:
    assert remit("init").code == 0
    folder = tmp_path / "project"
    (folder / "plan.json").write_text(json.dumps(PLAN))
    return folder


def forbid_own(project: Path) -> None:
    (project / "remit.yaml").write_text("version: 1\napprovals: {allow_own: false}\n")


def open_workspace(project: Path) -> Workspace:
    return Workspace.open(project, environ={"REMIT_STATE": str(project.parent / "state")})


def propose_and_approve(remit: Remit) -> CommandResult:
    made = remit("propose", "plan.json", "--json").document["proposal_id"]
    shown = remit("approvals", "show", made, "--json").document
    return remit("approvals", "approve", made, "--digest", shown["preview"]["preview_digest"])


def test_without_the_setting_one_person_proposes_and_approves(remit: Remit, project: Path) -> None:
    decided = propose_and_approve(remit)

    assert (decided.code, "Approved" in decided.out) == (0, True), decided.err
    assert remit("run", "plan.json", "--yes").code == 0
    assert (project / "new.txt").read_text() == "new\n"


def test_a_proposal_of_their_own_is_refused_where_the_setting_forbids_it(remit: Remit, project: Path) -> None:
    forbid_own(project)

    decided = propose_and_approve(remit)

    assert decided.code == 2, decided.out
    assert "permission_denied" in decided.err.lower()
    assert "you cannot approve what you requested yourself" in decided.err
    assert "approvals.allow_own" in decided.err
    assert "envelope.issued" not in remit("ledger", "show", COLUMNS="240").out
    made = remit("approvals", "list", "--plans", "--json").document["plans"][0]["proposal_id"]
    shown = remit("approvals", "show", made).out
    assert "approvals approve" not in shown
    assert "approvals deny" in shown
    assert "Another person with the role approver or admin" in shown
    assert remit("approvals", "deny", made).code == 0


def test_a_plan_that_they_bring_is_refused_where_the_setting_forbids_it(remit: Remit, project: Path) -> None:
    forbid_own(project)

    for done in (remit("run", "plan.json", "--yes"), approve(remit, "plan.json", "-o", "envelope.json")):
        assert (done.code, done.out) == (2, ""), "refused before the preview is computed"
        assert "approvals.allow_own is false" in done.err
        assert "remit propose PLAN" in done.err
    with pytest.raises(RefusedError) as refused, open_workspace(project) as workspace:
        workspace.approve((project / "plan.json").read_bytes())
    assert refused.value.reason is Reason.PERMISSION_DENIED
    assert not (project / "new.txt").exists()
    assert "envelope.issued" not in remit("ledger", "show", COLUMNS="240").out
