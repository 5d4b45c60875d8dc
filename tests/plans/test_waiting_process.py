"""The process that runs the steps of a plan has its order before the intent is recorded, and waits."""

from typing import Any

import pytest

from remit.authority.envelope import ApprovedPlan
from remit.contracts.plans.outcome import PlanRefusal
from remit.core.errors import Reason, RefusedError
from remit.ledger.writer import Batch
from remit.plans.operation import PlanOperation
from remit.sandbox.host import SandboxHost
from tests.plans.project import Project, plan_of, ran, replace
from tests.sandbox.test_host import is_gone, wait_until_gone


@pytest.fixture
def pids(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that got an order, while the test runs."""
    seen: list[int] = []
    claim = SandboxHost._claim_child  # noqa: SLF001 - every process that runs anything comes from here

    def noted(host: SandboxHost, *given: Any) -> Any:
        zygote, child = claim(host, *given)
        seen.append(child.pid)
        return zygote, child

    monkeypatch.setattr(SandboxHost, "_claim_child", noted)
    return seen


@pytest.mark.req("PX-07")
def test_one_process_waits_for_the_intent_and_has_changed_nothing(
    project: Project, pids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("a.txt", "1\n")
    envelope = project.approve(plan_of(replace("a", "a.txt", "1", "2"))).canonical()
    pids.clear()
    moments: list[tuple[list[bool], list[str], str]] = []
    consume = PlanOperation.consume_authority

    def look(self: PlanOperation, granted: ApprovedPlan, batch: Batch, *more: Any) -> None:
        names = sorted(path.name for path in project.root.iterdir() if path.name.startswith(".remit-"))
        moments.append(([is_gone(pid) for pid in pids], names, project.read("a.txt")))
        consume(self, granted, batch, *more)

    monkeypatch.setattr(PlanOperation, "consume_authority", look)
    assert ran(project.workspace.apply(envelope)).status.status == "SUCCESS"
    assert moments == [([False], [], "1\n")]
    assert len(pids) == 1, "and the same process ran the steps"


@pytest.mark.req("PX-02")
def test_if_the_intent_is_refused_the_process_that_waits_is_ended(
    project: Project, pids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("a.txt", "1\n")
    envelope = project.approve(plan_of(replace("a", "a.txt", "1", "2"))).canonical()
    pids.clear()

    def refuse(*_: Any) -> None:
        raise RefusedError(Reason.REVOKED, "the approval was revoked at the last moment")

    monkeypatch.setattr(PlanOperation, "consume_authority", refuse)
    assert isinstance(project.workspace.apply(envelope), PlanRefusal)
    assert project.read("a.txt") == "1\n"
    assert len(pids) == 1
    assert wait_until_gone(pids[0])
