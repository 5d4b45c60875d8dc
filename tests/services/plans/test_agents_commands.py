"""What an agent gets done by commands: what its token lets it do by any other way in, and no more."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from remit.cli import main
from remit.core.errors import Reason, RemitError
from tests.services.plans.proposal_workspace import ADMIN, ProposalWorkspace

Said = int | Reason
Remit = Callable[..., Said]


@pytest.fixture
def remit(office: ProposalWorkspace, monkeypatch: pytest.MonkeyPatch) -> Remit:
    """The command in this process, as whoever the variables say: its exit code, or why it was refused."""
    monkeypatch.setenv("REMIT_STATE", office.workspace.environ["REMIT_STATE"])

    def run(*arguments: str, token: str = "", agent: str = "") -> Said:
        environ = {"REMIT_TOKEN": token or None, "REMIT_AGENT": agent or None}
        given = [*arguments, "-C", str(office.workspace.root)]
        ran = CliRunner().invoke(main, given, env=environ, standalone_mode=False)
        if isinstance(ran.exception, RemitError):
            return ran.exception.reason
        assert ran.exception is None, ran.exception
        return ran.return_value or 0

    return run


def test_an_agent_applies_what_a_person_signed_only_with_a_token_for_it(
    office: ProposalWorkspace, remit: Remit, tmp_path: Path
) -> None:
    plan, path = office.make_plan()
    (tmp_path / "plan.json").write_bytes(plan)
    able, weak = office.agent.text, office.issue_token("bot", "plan.propose").text
    envelope = str(tmp_path / "envelope.json")
    for decisive in (("approve", "-o", envelope), ("run", "--yes")):
        command = (*decisive, str(tmp_path / "plan.json"))
        assert remit(*command, token=able) is remit(*command, agent="bot") is Reason.PERMISSION_DENIED
    (tmp_path / "envelope.json").write_bytes(office.workspace.approve(plan).canonical())
    before = office.project.read(path)
    assert remit("apply", envelope, token=weak) is Reason.CAPABILITY_MISSING
    assert remit("apply", envelope, agent="bot") is Reason.AUTHORITY_MALFORMED
    assert remit("apply", envelope, token="forged") is Reason.AUTHORITY_MALFORMED
    assert office.project.read(path) == before
    assert remit("apply", envelope, token=able) == 0
    assert office.project.read(path) != before


def test_an_agent_rolls_back_and_cancels_only_its_own_plans(office: ProposalWorkspace, remit: Remit) -> None:
    able, weak = office.agent.text, office.issue_token("bot", "plan.propose").text
    foreign, foreign_path = office.make_applied(ADMIN)
    own, path = office.make_applied()
    after = office.project.read(path)
    assert remit("rollback", own.proposal_id, token=weak) is Reason.CAPABILITY_MISSING
    assert remit("rollback", own.proposal_id, agent="bot") is Reason.AUTHORITY_MALFORMED
    assert remit("rollback", own.proposal_id, "--force", token=able) is Reason.PERMISSION_DENIED
    for other in (foreign.proposal_id, foreign.envelope_id or "", "last"):
        assert remit("rollback", other, token=able) is Reason.STATE_MISSING
        assert remit("cancel", other, token=able) is Reason.STATE_MISSING
    assert office.project.read(path) == after
    assert remit("rollback", own.proposal_id, token=able) == 0
    assert office.project.read(path) != after
    assert office.project.read(foreign_path) != office.project.read(path)

    waiting, _ = office.make_proposed()
    assert remit("cancel", waiting.proposal_id, token=able) == 0
    assert office.plans.get(ADMIN, waiting.proposal_id).state == "VOID"
