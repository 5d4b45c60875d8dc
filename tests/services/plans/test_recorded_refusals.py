"""A refused request about a plan is in the ledger with its caller, once, whichever method refused it."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.ledger.counted_entries import MAX_SINGLES
from remit.ledger.entry import COLUMNS, Entry
from remit.ledger.writer import Ledger
from remit.services.base.ownership import find_agent_recipient
from remit.workspace.workspace import Workspace
from tests.plans.project import create, plan_of
from tests.services.plans.proposal_workspace import APPROVER, OPERATOR, VIEWER, ProposalWorkspace, refusal_of
from tests.support.refusal_entries import RefusalEntry, new_refusals

OUTSIDE = plan_of(create("a", "../outside.txt"), plan_id="outside")
NO_ID = "0198f6a0-0000-7000-8000-000000000000"
NO_DIGEST = "sha256:" + "0" * 64
Ask = Callable[[ProposalWorkspace], Any]


def waiting(office: ProposalWorkspace) -> str:
    return office.make_proposed()[0].proposal_id


def reader(office: ProposalWorkspace) -> Any:
    return office.issue_token("reader", "task.run")


REFUSED: dict[str, tuple[str, str, Reason, Ask]] = {
    "preview by a person": ("preview", "os:oto", Reason.PATH_REFUSED, lambda o: o.plans.preview(OPERATOR, OUTSIDE)),
    "preview without the role": (
        *("preview", "os:vera", Reason.PERMISSION_DENIED),
        lambda o: o.plans.preview(VIEWER, OUTSIDE),
    ),
    "preview by an agent": ("preview", "agent:bot", Reason.PATH_REFUSED, lambda o: o.plans.preview(o.agent, OUTSIDE)),
    "preview without the capability": (
        *("preview", "agent:reader", Reason.CAPABILITY_MISSING),
        lambda o: o.plans.preview(reader(o), OUTSIDE),
    ),
    "propose by a person": ("propose", "os:oto", Reason.PATH_REFUSED, lambda o: o.plans.propose(OPERATOR, OUTSIDE)),
    "propose by an agent": ("propose", "agent:bot", Reason.PATH_REFUSED, lambda o: o.plans.propose(o.agent, OUTSIDE)),
    "propose without the capability": (
        *("propose", "agent:reader", Reason.CAPABILITY_MISSING),
        lambda o: o.plans.propose(reader(o), OUTSIDE),
    ),
    "compute by an agent": (
        *("compute", "agent:bot", Reason.PERMISSION_DENIED),
        lambda o: o.plans.compute_preview(o.agent, waiting(o)),
    ),
    "approve by an agent": (
        *("approve", "agent:bot", Reason.PERMISSION_DENIED),
        lambda o: o.plans.decide(o.agent, waiting(o), approved=True, preview_digest=NO_DIGEST),
    ),
    "approve without the role": (
        *("approve", "os:vera", Reason.PERMISSION_DENIED),
        lambda o: o.plans.decide(VIEWER, waiting(o), approved=True, preview_digest=NO_DIGEST),
    ),
    "approve what was not shown": (
        *("approve", "os:bob", Reason.HASH_MISMATCH),
        lambda o: o.plans.decide(APPROVER, shown(o), approved=True, preview_digest=NO_DIGEST),
    ),
    "read the preview of another agent": (
        *("preview", "agent:other", Reason.STATE_MISSING),
        lambda o: o.plans.read_preview(o.issue_token("other"), waiting(o)),
    ),
    "deny by an agent": (
        *("deny", "agent:bot", Reason.PERMISSION_DENIED),
        lambda o: o.plans.decide(o.agent, waiting(o), approved=False),
    ),
    "deny what is not there": (
        *("deny", "os:bob", Reason.STATE_MISSING),
        lambda o: o.plans.decide(APPROVER, NO_ID, approved=False),
    ),
    "cancel of another's": (
        *("cancel", "agent:other", Reason.STATE_MISSING),
        lambda o: o.plans.cancel(o.issue_token("other"), waiting(o)),
    ),
    "apply before the approval": (
        *("apply", "agent:bot", Reason.APPROVAL_PENDING),
        lambda o: o.plans.apply(o.agent, waiting(o), wait=30),
    ),
    "apply without the capability": (
        *("apply", "agent:reader", Reason.CAPABILITY_MISSING),
        lambda o: o.plans.apply(reader(o), waiting(o), wait=30),
    ),
    "envelope for an agent": (
        *("apply", "agent:bot", Reason.PERMISSION_DENIED),
        lambda o: o.plans.read_envelope(o.agent, waiting(o)),
    ),
    "rollback before the run": (
        *("rollback", "agent:bot", Reason.TRANSITION_INVALID),
        lambda o: o.plans.undo(o.agent, waiting(o)),
    ),
    "rollback without the capability": (
        *("rollback", "agent:reader", Reason.CAPABILITY_MISSING),
        lambda o: o.plans.undo(reader(o), waiting(o)),
    ),
}


def shown(office: ProposalWorkspace) -> str:
    name = waiting(office)
    office.plans.read_preview(APPROVER, name)
    return name


def the_one(found: list[RefusalEntry]) -> RefusalEntry:
    assert len(found) == 1, found
    return found[0]


@pytest.mark.req("PX-44")
@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_recorded_once_with_its_caller(office: ProposalWorkspace, name: str) -> None:
    operation, caller, reason, ask = REFUSED[name]
    with new_refusals(office.workspace) as found:
        problem = refusal_of(ask, office)
    assert problem.reason is reason
    entry = the_one(found)
    assert (entry.kind, entry.actor) == ("request.refused", caller)
    told = entry.payload
    assert (told["operation"], told["caller"], told["reason"]) == (operation, caller, reason.value)
    assert {"what", "where", "next_step", "code", "type"} <= told.keys()
    if name != "deny what is not there":
        assert told["plan_id"]
        assert told["plan_digest"].startswith("sha256:")


@pytest.mark.req("PX-44")
@pytest.mark.parametrize("document", [b"{", b"{}", b'{"plan_id": "p", "action_plan": [], "more": 1}'])
def test_a_document_that_cannot_be_parsed_is_not_recorded(office: ProposalWorkspace, document: bytes) -> None:
    with new_refusals(office.workspace) as found:
        for ask in (office.plans.preview, office.plans.propose):
            for caller in (OPERATOR, VIEWER, office.agent):
                refusal_of(ask, caller, document)
        refusal_of(office.workspace.preview, document)
    assert found == []


@pytest.mark.req("PX-44")
def test_what_the_engine_refused_is_recorded_by_it_alone_with_the_caller(office: ProposalWorkspace) -> None:
    made, path = office.make_approved()
    office.project.write(path, "changed since\n")
    with new_refusals(office.workspace) as found:
        refusal_of(office.plans.apply, office.agent, made.proposal_id, wait=30)
    entry = the_one(found)
    assert (entry.kind, entry.actor, entry.payload["operation"]) == ("plan.refused", "agent:bot", "apply")
    assert entry.payload["plan_digest"] == made.plan_digest
    assert entry.payload["code"]

    done, path = office.make_applied()
    office.project.write(path, "mine\n")
    for caller in (office.agent, OPERATOR):
        with new_refusals(office.workspace) as found:
            assert office.plans.undo(caller, done.proposal_id).status == "REFUSED"
        entry = the_one(found)
        assert (entry.kind, entry.payload["reason"]) == ("rollback.refused", "drifted")
        assert entry.actor == caller.id
    with new_refusals(office.workspace) as found:
        answer = office.plans.undo(OPERATOR, done.proposal_id, force=True, drift_digest=NO_DIGEST)
    assert answer.status == "REFUSED"
    entry = the_one(found)
    assert (entry.kind, entry.actor, entry.payload["operation"]) == ("request.refused", "os:oto", "rollback")


@pytest.mark.req("PX-44")
def test_refusals_of_the_python_interface_are_recorded(office: ProposalWorkspace) -> None:
    workspace: Workspace = office.workspace
    asked: list[tuple[str, Callable[[], Any]]] = [
        ("preview", lambda: workspace.preview(OUTSIDE)),
        ("approve", lambda: workspace.approve(OUTSIDE, actor="os:ada")),
        ("cancel", lambda: workspace.cancel(NO_ID)),
        ("rollback", lambda: workspace.rollback(NO_ID)),
    ]
    for operation, ask in asked:
        with new_refusals(workspace) as found:
            refusal_of(ask)
        entry = the_one(found)
        assert (entry.kind, entry.payload["operation"]) == ("request.refused", operation)
        assert entry.actor is not None
        assert entry.actor.startswith("os:")


@pytest.mark.req("PX-44")
def test_a_refusal_that_cannot_be_recorded_is_still_the_refusal(
    office: ProposalWorkspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise EnvironmentFailureError(Reason.STORE_UNAVAILABLE, "the database is gone")

    with monkeypatch.context() as down, caplog.at_level(logging.ERROR), new_refusals(office.workspace) as found:
        down.setattr(Ledger, "transact", fail)
        problem = refusal_of(office.plans.propose, office.agent, OUTSIDE)
    assert isinstance(problem, RefusedError)
    assert problem.reason is Reason.PATH_REFUSED
    assert found == []
    assert [record.message for record in caplog.records if record.name == "remit.refusals"] == [
        "a refusal could not be recorded"
    ]


@pytest.mark.req("PX-44")
@pytest.mark.parametrize("times", [300, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_many_refusals_of_one_agent_do_not_grow_the_ledger_or_hide_those_of_others(
    office: ProposalWorkspace, times: int
) -> None:
    flooding = office.issue_token(f"flood{times}")
    with new_refusals(office.workspace) as found:
        for _ in range(times):
            with pytest.raises(RemitError):
                office.plans.propose(flooding, OUTSIDE)
    singles = [each for each in found if each.kind == "request.refused"]
    counts = [each.payload for each in found if each.kind == "refusals.counted"]
    assert len(singles) == MAX_SINGLES
    assert len(found) <= 60
    assert {each.actor for each in found} == {flooding.id}
    last = counts[-1]
    assert (last["operation"], last["caller"]) == ("propose", flooding.id)
    assert last["count"] * 10 > times - MAX_SINGLES
    assert last["reasons"] == {"path_refused": last["count"]}
    assert last["first"] == last["last"] == singles[0].payload["plan_digest"]
    with new_refusals(office.workspace) as found:
        refusal_of(office.plans.propose, office.issue_token("quiet"), OUTSIDE)
        refusal_of(office.plans.preview, flooding, OUTSIDE)
    assert [(each.kind, each.actor) for each in found] == [
        ("request.refused", "agent:quiet"),
        ("request.refused", flooding.id),
    ]
    assert office.workspace.verify_ledger().findings == []


@pytest.mark.req("PX-44")
def test_many_refused_runs_are_counted_and_an_expired_approval_stays_recorded(office: ProposalWorkspace) -> None:
    made, path = office.make_approved(office.issue_token("again"))
    again = office.issue_token("again")
    office.project.write(path, "changed since\n")
    with new_refusals(office.workspace) as found:
        for _ in range(MAX_SINGLES + 15):
            refusal_of(office.plans.apply, again, made.proposal_id, wait=30)
    kinds = [each.kind for each in found]
    assert kinds == ["plan.refused"] * MAX_SINGLES + ["refusals.counted"] * 2
    assert {each.actor for each in found} == {"agent:again"}
    assert found[-1].payload["operation"] == "apply"


@pytest.mark.req("PX-44")
def test_agents_get_no_event_of_a_recorded_refusal(office: ProposalWorkspace) -> None:
    name = waiting(office)
    refusal_of(office.plans.apply, office.agent, name, wait=30)
    refusal_of(office.plans.cancel, office.issue_token("other"), name)
    with office.workspace.store.reading() as connection:
        query = f"SELECT {COLUMNS} FROM ledger_entries WHERE kind IN ('request.refused', 'refusals.counted')"
        entries = [Entry(*row) for row in connection.rows(query)]
        assert entries
        assert [find_agent_recipient(connection, each) for each in entries] == [None] * len(entries)
