"""What ends while a plan runs: its approval, its key, the database it is recorded in is another."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace
from tests.plans.project import Project, create, delete, plan_of, ran, replace
from tests.support.task_workspace import MovableClock


def waves() -> bytes:
    """Three on one file, and so one after the other."""
    return plan_of(*(replace(f"a{n}", "a.txt", f"{n}", f"{n + 1}") for n in range(3)), create("new", "new/b.txt"))


@pytest.mark.req("PX-02", "PX-35")
@pytest.mark.parametrize("how, code", [("expired", 1004), ("revoked", 1002)])
def test_authority_that_ends_between_two_waves_undoes_everything(
    project: Project, clock: MovableClock, how: str, code: int
) -> None:
    project.write("a.txt", "0\n")
    envelope = project.approve(waves()).canonical()
    before = project.tree()

    def end() -> None:
        if how == "expired":
            clock.offset = timedelta(hours=2)
        else:
            project.workspace.rotate_key("protocol", revoke=True)

    outcome = ran(project.workspace.apply(envelope, on_progress=once(end)))
    assert outcome.status.status == "ROLLED_BACK"
    assert [(error.error_code, error.recovery_action) for error in outcome.errors] == [(code, "ROLLED_BACK")]
    assert project.tree() == before


def once(act: Callable[[], object]) -> Callable[[int, int], None]:
    pending = [act]

    def on_progress(_done: int, _total: int) -> None:
        if pending:
            pending.pop()()

    return on_progress


@pytest.mark.req("PX-28")
def test_a_ledger_on_postgresql_records_a_plan_the_same_way(tmp_path: Path, postgres_url: str) -> None:
    root = tmp_path / "project"
    root.mkdir()
    environ = {"REMIT_STATE": str(tmp_path / "state"), "LEDGER_URL": postgres_url}
    made, _ = initialise(root, environ, MovableClock(), url_variable="LEDGER_URL")
    made.close()
    (root / "a.txt").write_bytes(b"0\n\x00\xff")
    (root / "b.txt").write_text("0 caf\u00e9 \u2028\n")
    plan = plan_of(delete("gone", "a.txt"), replace("edit", "b.txt", "0", "\u0001"))
    with Workspace.open(root, environ=environ) as workspace:
        envelope = workspace.approve(plan).canonical()
        outcome = ran(workspace.apply(envelope))
        assert outcome.status.status == "SUCCESS"
        assert workspace.apply(envelope) == outcome
        assert workspace.rollback("last").status == "EXECUTED"
        assert (root / "a.txt").read_bytes() == b"0\n\x00\xff"
        assert workspace.prune() != []
        assert workspace.verify_ledger().holds
