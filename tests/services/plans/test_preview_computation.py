"""Who may cause that a preview executes something, how often, and what people and the agent are told."""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.plans.plan import Plan
from remit.contracts.services.plans import ProposalView
from remit.core.errors import Reason
from remit.identity.callers import AgentCaller
from remit.plans.proposals.admission import MAX_IN_WINDOW
from remit.plans.proposals.draft import ProposalDraft
from remit.plans.proposals.previews import PreviewNotStoredError
from remit.plans.proposals.service import MAX_PENDING_OF_ONE
from remit.services.plans.preview_computation import CAPABILITY, FOLDER, FOR_AGENT
from remit.services.plans.service import PlanService
from tests.plans.project import create, plan_of
from tests.plans.sql.shop import DATABASE, make_database, sql
from tests.services.plans.proposal_workspace import APPROVER, OPERATOR, VIEWER, ProposalWorkspace, refusal_of
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.counted_sandboxes import count_sandboxes

pytestmark = pytest.mark.req("PV-02")
ACTING = Path(__file__).with_name("acting_process.py")
CONNECTIONS = {"shop": {"type": "duckdb", "path": DATABASE}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProposalWorkspace]:
    made = make_place(tmp_path_factory.mktemp("computing"))
    yield made
    made.close()


@pytest.fixture
def own_place(tmp_path: Path) -> Iterator[ProposalWorkspace]:
    """For a test that moves the clock."""
    made = make_place(tmp_path)
    yield made
    made.close()


def make_place(folder: Path) -> ProposalWorkspace:
    made = ProposalWorkspace(folder, connections=CONNECTIONS)
    make_database(made.project.root / DATABASE)
    return made


@pytest.fixture
def sandboxes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return count_sandboxes(monkeypatch)


def sql_plan(name: str) -> bytes:
    return plan_of(sql("s", "UPDATE orders SET amount = amount + 1", connection="shop"), plan_id=f"plan-{name}")


def propose(place: ProposalWorkspace, agent: AgentCaller, plan: bytes, **more: Any) -> ProposalView:
    made = place.plans.propose(agent, plan, **more)
    assert place.plans.finish_previews(60)
    return made


def fill_window(place: ProposalWorkspace, agent: AgentCaller, name: str, number: int) -> None:
    """Record so many queued previews, without computing them. Each proposal is withdrawn, so the next one fits."""
    for each in range(number):
        plan = Plan.parse(sql_plan(f"{name}-{each}"))
        draft = ProposalDraft(plan.canonical(), plan.plan_id, "a plan", "LOW", agent.actor, execution="allowed")
        row = place.workspace.proposals.propose(draft).row
        if each >= MAX_PENDING_OF_ONE // 2:
            place.workspace.proposals.withdraw(row.proposal_id, str(agent.actor))


def wait_until(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.02)


def kinds(place: ProposalWorkspace, proposal_id: str) -> list[str]:
    return [kind for kind, _ in place.read_entries(proposal_id)]


# --- the capability ---------------------------------------------------------------------------------------------------


def test_without_the_capability_nothing_executes_until_a_person_computes(
    place: ProposalWorkspace, sandboxes: list[int]
) -> None:
    agent = place.issue_token("poor", "plan.propose", "plan.apply")

    made = propose(place, agent, sql_plan("poor"))

    assert sandboxes == []
    assert kinds(place, made.proposal_id) == ["proposal.made", "proposal.preview_deferred"]
    assert place.plans.list_actions(VIEWER, made.proposal_id)
    unseen = refusal_of(place.plans.read_preview, VIEWER, made.proposal_id)
    assert isinstance(unseen, PreviewNotStoredError)
    assert CAPABILITY in unseen.what
    assert f"remit approvals compute {made.proposal_id}" in unseen.next_step
    view = place.plans.get(APPROVER, made.proposal_id)
    assert view.preview_state == "not_computed"
    assert f"remit approvals compute {made.proposal_id}" in (view.preview_note or "")
    assert CAPABILITY in (view.preview_note or "")
    digest = "sha256:" + "0" * 64
    problem = refusal_of(place.plans.decide, APPROVER, made.proposal_id, approved=True, preview_digest=digest)
    assert problem.reason is Reason.STATE_MISSING
    assert refusal_of(place.plans.compute_preview, APPROVER, made.proposal_id).reason is Reason.PERMISSION_DENIED
    assert sandboxes == []

    place.plans.compute_preview(OPERATOR, made.proposal_id)

    assert sandboxes
    assert place.read_entries(made.proposal_id)[-1] == ("proposal.previewed", OPERATOR.id)
    view = place.plans.get(APPROVER, made.proposal_id)
    assert (view.preview_state, view.preview_note) == ("computed", None)
    assert place.approve(made.proposal_id).state == "APPROVED"
    assert place.plans.get(APPROVER, made.proposal_id).preview_state is None
    assert place.plans.apply(agent, made.proposal_id, wait=30).state == "APPLIED"


@pytest.mark.req("PV-04")
def test_the_agent_learns_of_its_capability_and_of_nothing_else(place: ProposalWorkspace) -> None:
    agent = place.issue_token("told", "plan.propose")
    good, bad = sql_plan("good"), plan_of(sql("s", "SELECT * FROM no_such_table", connection="shop"), plan_id="bad")

    views = [propose(place, agent, plan) for plan in (good, bad)]
    place.plans.compute_preview(OPERATOR, views[0].proposal_id)
    assert place.plans.compute_preview(OPERATOR, views[1].proposal_id).document.problems
    later = [place.plans.get(agent, view.proposal_id) for view in views]

    assert {(view.preview_state, view.preview_note) for view in (*views, *later)} == {(None, FOR_AGENT)}
    again = refusal_of(
        place.plans.compute_preview, place.issue_token("told", "plan.propose", CAPABILITY), views[0].proposal_id
    )
    assert again.reason is Reason.PERMISSION_DENIED


def test_with_the_capability_it_is_computed_right_away_and_recorded(place: ProposalWorkspace) -> None:
    agent = place.issue_token("able", "plan.propose", CAPABILITY)

    made = propose(place, agent, sql_plan("able"))

    assert (made.preview_state, made.preview_note) == (None, None)
    assert place.plans.get(APPROVER, made.proposal_id).preview_state == "computed"
    assert place.read_entries(made.proposal_id) == [
        ("proposal.made", "agent:able"),
        ("proposal.preview_queued", "agent:able"),
        ("proposal.previewed", "agent:able"),
    ]


def test_a_plan_that_executes_nothing_needs_no_capability(place: ProposalWorkspace) -> None:
    agent = place.issue_token("plain", "plan.propose")

    made = propose(place, agent, plan_of(create("a", "plain.txt"), plan_id="plain"))

    assert place.plans.get(APPROVER, made.proposal_id).preview_state == "computed"
    assert kinds(place, made.proposal_id) == ["proposal.made", "proposal.previewed"]


def test_a_failed_computation_is_a_state_of_its_own(place: ProposalWorkspace) -> None:
    agent = place.issue_token("failing", "plan.propose", CAPABILITY)
    database = place.project.root / DATABASE
    away = database.rename(database.with_suffix(".away"))
    database.write_bytes(b"this is no database" * 100)
    try:
        made = propose(place, agent, sql_plan("failing"))
    finally:
        database.unlink()
        away.rename(database)

    view = place.plans.get(APPROVER, made.proposal_id)
    stored_or_failed = {"failed": "proposal.preview_failed", "computed": "proposal.previewed"}
    assert view.preview_state in stored_or_failed, "the document may itself hold the failure of the action"
    assert stored_or_failed[view.preview_state] in kinds(place, made.proposal_id)


# --- the rate ---------------------------------------------------------------------------------------------------------


def test_beyond_the_rate_a_person_computes_and_a_restart_changes_nothing(
    own_place: ProposalWorkspace, sandboxes: list[int]
) -> None:
    place = own_place
    agent = place.issue_token("eager", "plan.propose", CAPABILITY)
    fill_window(place, agent, "eager", MAX_IN_WINDOW)

    made = propose(place, agent, sql_plan("eager-beyond"))

    assert sandboxes == []
    assert kinds(place, made.proposal_id) == ["proposal.made", "proposal.preview_deferred"]
    view = place.plans.get(APPROVER, made.proposal_id)
    assert (view.preview_state, str(MAX_IN_WINDOW) in (view.preview_note or "")) == ("not_computed", True)
    assert (made.preview_state, made.preview_note) == (None, None)
    with place.project.opened() as workspace:
        restarted = PlanService(workspace)
        second = restarted.propose(place.issue_token("eager", "plan.propose", CAPABILITY), sql_plan("eager-restart"))
        restarted.close()
    assert "proposal.preview_deferred" in kinds(place, second.proposal_id)
    other = propose(place, place.issue_token("calm", "plan.propose", CAPABILITY), sql_plan("calm"))
    assert "proposal.previewed" in kinds(place, other.proposal_id), "the rate of another agent is its own"
    edits = propose(place, agent, plan_of(create("a", "edits.txt"), plan_id="edits"))
    assert "proposal.previewed" in kinds(place, edits.proposal_id), "edits of files are not counted"
    assert place.plans.compute_preview(OPERATOR, made.proposal_id).preview_digest

    place.clock.offset += timedelta(hours=1, seconds=1)
    after = propose(place, agent, sql_plan("eager-later"))
    assert "proposal.previewed" in kinds(place, after.proposal_id)


def test_of_proposals_at_once_only_as_many_as_the_rate_allows_execute(place: ProposalWorkspace) -> None:
    agent = place.issue_token("racing", "plan.propose", CAPABILITY)
    fill_window(place, agent, "racing", MAX_IN_WINDOW - 1)
    made: list[str] = []
    start = threading.Barrier(4)

    def run(number: int) -> None:
        start.wait()
        made.append(place.plans.propose(agent, sql_plan(f"racing-{number}-now")).proposal_id)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert place.plans.finish_previews(60)

    found = [each for name in made for each in kinds(place, name)]
    assert (found.count("proposal.preview_queued"), found.count("proposal.preview_deferred")) == (1, 3)
    assert found.count("proposal.previewed") == 1


def test_no_two_processes_compute_for_one_agent_at_the_same_time(place: ProposalWorkspace) -> None:
    agent = place.issue_token("single", "plan.propose", CAPABILITY)
    folder = place.workspace.state.path / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = folder / f"{sha256(agent.id.encode()).hexdigest()[:32]}.lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        made = place.plans.propose(agent, sql_plan("single"))
        withdrawn = place.plans.propose(agent, sql_plan("single-withdrawn"))
        other = place.plans.propose(place.issue_token("beside", "plan.propose", CAPABILITY), sql_plan("beside"))
        wait_until(lambda: "proposal.previewed" in kinds(place, other.proposal_id))
        assert place.plans.get(APPROVER, made.proposal_id).preview_state == "computing"
        assert "proposal.previewed" not in kinds(place, made.proposal_id)
        place.plans.cancel(agent, withdrawn.proposal_id)
    finally:
        os.close(descriptor)
    assert place.plans.finish_previews(60)
    assert place.plans.get(APPROVER, made.proposal_id).preview_state == "computed"
    assert "proposal.previewed" not in kinds(place, withdrawn.proposal_id)


# --- killed -----------------------------------------------------------------------------------------------------------


def test_killed_between_the_proposal_and_its_preview_a_person_computes_it(
    place: ProposalWorkspace, tmp_path: Path
) -> None:
    agent = place.issue_token("killed", "plan.propose", CAPABILITY)
    for point in ("proposal.made", "sql.copied"):
        file = tmp_path / f"{point}.json"
        file.write_bytes(sql_plan(f"killed-{point}"))
        command = [preloaded.python(), str(ACTING), str(place.project.root), "agent", str(file), point, agent.text]
        ended = run_child(command, fault=Fault(point), environment=place.project.environ)
        assert ended.killed, ended.output

        (view,) = (each for each in place.plans.list_pending(APPROVER) if each.plan_id == f"plan-killed-{point}")

        assert kinds(place, view.proposal_id) == ["proposal.made", "proposal.preview_queued"]
        assert view.preview_state == "not_computed", point
        assert "the process that received the plan ended before" in (view.preview_note or "")
        again = propose(place, agent, file.read_bytes(), key=point)
        assert again.proposal_id == view.proposal_id
        assert place.plans.get(APPROVER, view.proposal_id).preview_state == "not_computed", "a repeat computes nothing"
        place.plans.compute_preview(OPERATOR, view.proposal_id)
        assert place.plans.get(APPROVER, view.proposal_id).preview_state == "computed"
    assert place.workspace.verify_ledger().holds


@pytest.mark.req("PV-04")
@pytest.mark.req("PV-03")
def test_killed_in_a_turn_nothing_is_shown_and_nothing_runs_again(
    own_place: ProposalWorkspace, tmp_path: Path, sandboxes: list[int]
) -> None:
    place = own_place
    made = []
    for number, point in enumerate(("proposal.made", "sql.copied", "proposal.preview_stored")):
        caps = ("plan.propose", CAPABILITY, "plan.read")
        agent = place.issue_token(f"reading-{number}", *caps, connections=("shop",))  # none waits for another's turn
        file = tmp_path / f"{point}.json"
        file.write_bytes(sql_plan(f"in-turn-{point}"))
        command = [preloaded.python(), str(ACTING), str(place.project.root), "agent", str(file), point, agent.text]
        ended = run_child(command, fault=Fault(point), environment=place.project.environ)
        assert ended.killed, ended.output
        found = [each for each in place.plans.list_pending(APPROVER) if each.plan_id == f"plan-in-turn-{point}"]
        made += [(agent, each.proposal_id) for each in found]
    place.clock.offset += timedelta(minutes=5)
    with place.project.opened() as workspace:
        restarted = PlanService(workspace)
        for agent, name in made:
            assert place.workspace.proposals.turn_of(place.workspace.proposals.find(name)) is not None
            assert restarted.read_preview(agent, name).document.status == "WITHHELD"
            assert restarted.get(APPROVER, name).preview_state == "not_computed"
        restarted.close()
    assert (len(made), sandboxes) == (3, [])
    agent, name = made[0]
    assert place.plans.compute_preview(OPERATOR, name).document.status != "WITHHELD"
    assert place.plans.read_preview(agent, name).document.status == "WITHHELD"
