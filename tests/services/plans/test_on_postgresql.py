"""The desk's own questions to the store, asked of PostgreSQL."""

from pathlib import Path

import pytest

from remit.core.errors import Reason
from remit.core.ids import system_clock
from remit.services.plans.service import PlanService
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace
from tests.plans.project import create, plan_of
from tests.services.plans.proposal_workspace import ADMIN, OPERATOR, refusal_of


def test_a_plan_from_its_proposal_to_its_undo(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_URL", postgres_url)
    environ = {"REMIT_STATE": str(tmp_path / "state"), "LEDGER_URL": postgres_url}
    root = tmp_path / "project"
    root.mkdir()
    initialise(root, environ, system_clock, url_variable="LEDGER_URL")[0].close()
    with Workspace.open(root, environ=environ) as workspace:
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
