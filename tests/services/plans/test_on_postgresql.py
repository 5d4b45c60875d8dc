"""The desk's own questions to the store, asked of PostgreSQL."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason
from remit.core.ids import system_clock
from remit.plans.proposals.admission import MAX_IN_WINDOW
from remit.plans.proposals.draft import ProposalDraft
from remit.services.plans.service import PlanService
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace
from tests.plans.project import create, plan_of
from tests.services.plans.proposal_workspace import ADMIN, OPERATOR, refusal_of


@pytest.fixture
def open_workspace(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Workspace]:
    """Opens one workspace on PostgreSQL, as often as wanted."""
    monkeypatch.setenv("LEDGER_URL", postgres_url)
    environ = {"REMIT_STATE": str(tmp_path / "state"), "LEDGER_URL": postgres_url}
    root = tmp_path / "project"
    root.mkdir()
    initialise(root, environ, system_clock, url_variable="LEDGER_URL")[0].close()
    return lambda: Workspace.open(root, environ=environ)


def test_a_plan_from_its_proposal_to_its_undo(open_workspace: Callable[[], Workspace]) -> None:
    with open_workspace() as workspace:
        assert workspace.settings.store == "postgresql"
        plans = PlanService(workspace)
        plan = plan_of(create("a", "new.txt", "new\0with a NUL\n"), plan_id="new")
        made = [plans.propose(OPERATOR, plan, key=key, note="a\0b") for key in "ab"]
        first = made[0].proposal_id
        shown = plans.read_preview(ADMIN, first)
        plans.decide(ADMIN, first, approved=True, preview_digest=shown.preview_digest)
        assert plans.apply(ADMIN, first, wait=30).state == "APPLIED"
        assert plans.undo(ADMIN, first).status == "EXECUTED"
        runs = plans.list_runs(ADMIN, limit=1)
        assert [run.what for run in runs.items] == ["rollback"]
        assert [run.proposal_id for run in plans.list_runs(ADMIN, cursor=runs.next).items] == [first]
        page = plans.list_proposals(ADMIN, limit=1)
        assert [each.state for each in page.items] == ["PENDING"]
        assert [each.state for each in plans.list_proposals(ADMIN, cursor=page.next).items] == ["UNDONE"]
        assert plans.cancel(ADMIN, made[1].proposal_id).state == "VOID"
        for name in ("a\0b", "", "\ud800", "x" * 5_000, "../../etc/passwd", "%"):
            calls = (
                plans.get,
                plans.read_preview,
                plans.apply,
                plans.cancel,
                plans.undo,
                plans.read_report,
                plans.read_run,
            )
            for call in calls:
                assert refusal_of(call, ADMIN, name).reason is Reason.STATE_MISSING, (call, name)
        assert workspace.verify_ledger().holds


@pytest.mark.req("PV-02")
def test_two_processes_at_the_rate_share_one_place(open_workspace: Callable[[], Workspace]) -> None:
    def propose(workspace: Workspace, number: int) -> str:
        plan = Plan.parse(plan_of(create("a", "new.txt"), plan_id=f"plan-{number}"))
        draft = ProposalDraft(plan.canonical(), plan.plan_id, "a plan", "LOW", "agent:bot", execution="allowed")
        return workspace.proposals.propose(draft).row.proposal_id

    def count(workspace: Workspace, kind: str) -> int:
        with workspace.store.reading() as connection:
            found = connection.one("SELECT count(*) FROM ledger_entries WHERE kind = ?", (kind,))
        return int(found[0]) if found else 0

    with open_workspace() as workspace, open_workspace() as beside:
        for number in range(MAX_IN_WINDOW - 1):
            workspace.proposals.withdraw(propose(workspace, number), "agent:bot")
        start = threading.Barrier(4)

        def run(place: Workspace, number: int) -> None:
            start.wait()
            propose(place, number)

        threads = [
            threading.Thread(target=run, args=(place, 100 + number))
            for number, place in enumerate((workspace, beside, workspace, beside))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert count(workspace, "proposal.made") == MAX_IN_WINDOW + 3
        assert count(workspace, "proposal.preview_queued") == MAX_IN_WINDOW
        assert count(workspace, "proposal.preview_deferred") == 3
