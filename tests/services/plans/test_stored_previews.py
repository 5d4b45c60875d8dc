"""The preview of a proposed plan is computed once and stored; views show that one, or say that there is none."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from remit.cli.approvals.plans import compute_plan, show_plan, show_plans
from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason
from remit.ledger.entry import NewEntry
from remit.ledger.findings import RecordFault
from remit.ledger.writer import Batch
from remit.plans.model.callbacks import PlanHooks
from remit.plans.preview.planned_effect import RecordedPreview
from remit.plans.proposals.draft import ProposalDraft
from remit.plans.proposals.previews import ComputedPreview, PreviewNotStoredError
from remit.services.services import Services
from remit.store.connection import GuardedTableError
from tests.plans.project import create, plan_of
from tests.services.plans.proposal_workspace import ADMIN, APPROVER, OPERATOR, VIEWER, ProposalWorkspace, refusal_of
from tests.services.plans.test_killed import AFTER, BEFORE, killed
from tests.services.plans.test_rows import (
    StoredProposals,
    database_url,
    dialect,
    empty_store,
    reason_of,
    store,
    store_url,
    stored,
    world,
)

__all__ = ["database_url", "dialect", "empty_store", "store", "store_url", "stored", "world"]

FIRST = ComputedPreview("sha256:" + "1" * 64, b'{"first":true}', "first", "LOW")
SECOND = ComputedPreview("sha256:" + "2" * 64, b'{"second":true}', "second", "LOW")
_IN_OPEN = 0x20
OTHER = "'{\"forged\":true}'"


@pytest.fixture
def services(office: ProposalWorkspace) -> Iterator[Services]:
    with Services(office.workspace) as made:
        yield made


@contextmanager
def watching(*paths: Path) -> Iterator[Callable[[], bool]]:
    """Watch files. Yields a function that says whether any of them was opened since the last call (inotify)."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert descriptor >= 0
    try:
        for path in paths:
            assert libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_OPEN) > 0

        def was_opened() -> bool:
            try:
                return bool(os.read(descriptor, 1 << 16))
            except BlockingIOError:
                return False

        yield was_opened
    finally:
        os.close(descriptor)


def without_a_preview(office: ProposalWorkspace) -> str:
    """As a proposal that was made before previews were stored."""
    document, _ = office.make_plan()
    plan = Plan.parse(document)
    draft = ProposalDraft(plan.canonical(), plan.plan_id, "an earlier plan", "LOW", ADMIN.actor)
    return str(office.workspace.proposals.propose(draft).row.proposal_id)


@pytest.mark.req("PV-01")
def test_one_preview_from_the_proposal_to_the_approval_and_its_digest_is_on_record(office: ProposalWorkspace) -> None:
    made, _ = office.make_proposed(ADMIN)
    first = office.plans.read_preview(VIEWER, made.proposal_id)
    assert (first.computed_by, first.changed_since) == ("os:ada", ())
    assert first == office.plans.read_preview(VIEWER, made.proposal_id), "not a field of it is made anew"
    again = office.plans.compute_preview(OPERATOR, made.proposal_id)
    assert again.preview_digest == first.preview_digest, "the same inputs give the same digest at any time"
    assert again.computed_by == "os:oto"
    assert office.approve(made.proposal_id).state == "APPROVED"
    kinds = office.read_entries(made.proposal_id)
    assert kinds == [
        ("proposal.made", "os:ada"),
        ("proposal.previewed", "os:oto"),
        ("proposal.approved", "os:bob"),
    ]
    assert office.workspace.verify_ledger().holds


@pytest.mark.req("PV-04")
def test_people_read_the_preview_in_the_title_of_a_plan_and_its_agent_does_not(office: ProposalWorkspace) -> None:
    made, _ = office.make_proposed()
    assert office.plans.finish_previews(60)
    seen = {
        "page": office.plans.get(VIEWER, made.proposal_id).title,
        "list": office.plans.list_proposals(VIEWER).items[0].title,
        "inbox": office.plans.list_pending(VIEWER)[0].title,
    }
    assert all("+1 -1 lines" in title for title in seen.values()), seen
    for view in (office.plans.get(office.agent, made.proposal_id), office.plans.list_proposals(office.agent).items[0]):
        assert (view.title, "lines" in view.title) == (made.title, False)


def test_a_plan_that_was_denied_or_withdrawn_is_not_looked_at_any_more(
    office: ProposalWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preview of an agent's plan waits behind another one of the same agent."""
    gate, begun = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        begun.set()
        gate.wait(60)

    first, _ = office.make_proposed()
    assert office.plans.finish_previews(60)
    row = office.workspace.proposals.find(first.proposal_id)
    assert row is not None
    office.plans._previews.jobs.start("hold", hold, owner=row.proposed_by)  # noqa: SLF001 - to be sure that it waits
    assert begun.wait(60)
    denied, withdrawn = (office.make_proposed()[0].proposal_id for _ in range(2))
    office.plans.decide(APPROVER, denied, approved=False)
    office.plans.cancel(office.agent, withdrawn)
    wanted, _ = office.make_proposed()
    looked_at: list[bytes] = []
    preview: Callable[..., RecordedPreview] = office.workspace.plans.preview

    def counted(plan: bytes, hooks: PlanHooks, **more: Any) -> RecordedPreview:
        looked_at.append(plan)
        return preview(plan, hooks, **more)

    monkeypatch.setattr(office.workspace.plans, "preview", counted)
    gate.set()
    assert office.plans.finish_previews(60)
    assert len(looked_at) == 1, "the one that still waits for an answer"
    assert "proposal.previewed" in [kind for kind, _ in office.read_entries(wanted.proposal_id)]


@pytest.mark.req("PV-01")
def test_a_changed_input_makes_it_stale_by_name_and_it_is_not_approved_until_it_is_computed_again(
    office: ProposalWorkspace,
) -> None:
    made, path = office.make_proposed(ADMIN)
    new = office.plans.propose(ADMIN, plan_of(create("a", "fresh.txt"), plan_id="fresh"))
    office.project.write(path, "one\ntwo\nother\n")
    office.project.write("fresh.txt", "somebody was faster\n")
    for proposal_id, name, how in (
        (made.proposal_id, path, "was changed since this preview was computed"),
        (new.proposal_id, "fresh.txt", "did not exist when this preview was computed"),
    ):
        (changed,) = office.plans.read_preview(VIEWER, proposal_id).changed_since
        assert (changed.path, how in changed.how) == (name, True)
        problem = refusal_of(office.approve, proposal_id)
        assert (problem.reason, name in problem.where) == (Reason.HASH_MISMATCH, True)
    assert office.plans.compute_preview(OPERATOR, made.proposal_id).changed_since == ()
    assert office.approve(made.proposal_id).state == "APPROVED"
    doomed = office.plans.compute_preview(OPERATOR, new.proposal_id).document
    assert doomed.problems, "what would fail now is shown"
    assert "would fail" in refusal_of(office.approve, new.proposal_id).what


@pytest.mark.req("PV-02")
def test_lists_mark_by_records_alone_what_cannot_be_approved_and_open_no_file_of_a_plan(
    office: ProposalWorkspace, services: Services, capsys: pytest.CaptureFixture[str]
) -> None:
    good, good_path = office.make_proposed()
    failing, failing_path = office.make_plan()
    office.project.write(failing_path, "without that word\n")
    bad = office.plans.propose(office.agent, failing)
    assert office.plans.finish_previews(60)

    def listed() -> list[tuple[str | None, ...]]:
        pages = (office.plans.list_proposals(VIEWER).items, office.plans.list_pending(VIEWER))
        found = [{each.proposal_id: each.preview_problem for each in page} for page in pages]
        found.append({each.id: each.preview_problem for each in services.inbox.list_open(VIEWER)})
        return [tuple(each[made.proposal_id] for made in (good, bad)) for each in found]

    assert listed() == [(None, "would_fail")] * 3
    assert [each.preview_problem for each in office.plans.list_proposals(office.agent).items[:2]] == [None, None]
    office.project.write(good_path, "changed since\n")
    config = office.project.root / "remit.yaml"
    before = config.read_bytes() if config.exists() else None
    with watching(office.project.root / good_path, office.project.root / failing_path) as was_opened:
        assert listed() == [(None, "would_fail")] * 3
        for text in ('{"version": 1, "limits": {"max_files": 7}}', "not: [valid"):
            config.write_text(text)
            assert listed() == [("configuration_changed", "configuration_changed")] * 3, text
            show_plans(office.workspace, office.plans.list_pending(VIEWER)[:2], as_json=False)
            assert capsys.readouterr().out.count("preview is stale: the configuration changed") == 2
        assert not was_opened()
        config.unlink() if before is None else config.write_bytes(before)
        assert office.plans.read_preview(VIEWER, good.proposal_id).changed_since
        assert was_opened(), "or no opening would be noticed"
    assert listed() == [(None, "would_fail")] * 3
    show_plans(office.workspace, office.plans.list_pending(VIEWER)[:2], as_json=False)
    assert capsys.readouterr().out.count("would fail, so it cannot be approved") == 1


@pytest.mark.req("PV-02")
def test_where_none_is_stored_a_view_says_so_and_computing_is_for_those_who_may_propose(
    office: ProposalWorkspace,
) -> None:
    name = without_a_preview(office)
    problem = refusal_of(office.plans.read_preview, VIEWER, name)
    assert isinstance(problem, PreviewNotStoredError)
    assert f"remit approvals compute {name}" in problem.next_step
    digest = "sha256:" + "0" * 64
    answer: dict[str, Any] = {"approved": True, "preview_digest": digest}
    assert refusal_of(office.plans.decide, APPROVER, name, **answer).reason is Reason.STATE_MISSING
    for caller in (VIEWER, APPROVER, office.issue_token("reader", "plan.apply"), office.agent):
        assert refusal_of(office.plans.compute_preview, caller, name).reason is Reason.PERMISSION_DENIED
    kinds = [kind for kind, _ in office.read_entries(name)]
    assert kinds == ["proposal.made", *["request.refused"] * 5], "what was refused left only its refusal"
    shown = office.plans.compute_preview(OPERATOR, name)
    assert shown == office.plans.read_preview(VIEWER, name)
    assert office.approve(name).state == "APPROVED"


def test_an_approved_plan_is_previewed_again_only_as_approved_and_a_closed_plan_never(
    office: ProposalWorkspace,
) -> None:
    made, path = office.make_approved()
    assert office.plans.compute_preview(OPERATOR, made.proposal_id).changed_since == ()
    office.project.write(path, "another\n")
    assert refusal_of(office.plans.compute_preview, OPERATOR, made.proposal_id).reason is Reason.HASH_MISMATCH
    before = office.plans.read_preview(VIEWER, made.proposal_id).document
    assert "TWO" in before.files[0].diff, "what was approved is still shown"
    for closed in (office.make_applied()[0], office.make_proposed()[0]):
        if closed.state == "PENDING":
            office.plans.decide(ADMIN, closed.proposal_id, approved=False)
        assert (
            refusal_of(office.plans.compute_preview, OPERATOR, closed.proposal_id).reason is Reason.TRANSITION_INVALID
        )


def test_a_process_killed_while_it_computes_a_preview_again_has_stored_it_once_or_not_at_all(
    office: ProposalWorkspace,
) -> None:
    for point in (*BEFORE, "proposal.preview_stored", *AFTER, "proposal.previewed"):
        made, path = office.make_proposed(ADMIN)
        first = office.plans.read_preview(VIEWER, made.proposal_id)
        office.project.write(path, "one\ntwo\nother\n")
        # The first transaction stores the preview, and the second one replaces that of the proposal.
        killed(office, point, "compute", made.proposal_id, count=2 if point.startswith("append.") else 1)
        is_stored = point in {*AFTER, "proposal.previewed"}
        now = office.plans.read_preview(VIEWER, made.proposal_id)
        assert (now.preview_digest != first.preview_digest, now.changed_since == ()) == (is_stored, is_stored), point
        assert len(office.read_entries(made.proposal_id)) == 1 + is_stored, point
        if not is_stored:
            office.plans.compute_preview(OPERATOR, made.proposal_id)
        assert office.approve(made.proposal_id).state == "APPROVED", point
    assert office.workspace.verify_ledger().holds


# --- rows, on both databases -----------------------------------------------------------------------------------------

CHANGES = {
    "another document": f"UPDATE proposal_previews SET document = {OTHER}",
    "no document": "UPDATE proposal_previews SET document = NULL",
    "another digest": "UPDATE proposal_previews SET preview_digest = 'sha256:0'",
    "another digest of the document": "UPDATE proposal_previews SET document_digest = 'sha256:0'",
    "by another": "UPDATE proposal_previews SET computed_by = 'os:eve'",
    "at another time": "UPDATE proposal_previews SET computed_at = '2020-01-01T00:00:00.000000Z'",
    "from another place": "UPDATE proposal_previews SET entry_seq = 1",
    "of another proposal": "UPDATE proposal_previews SET proposal_id = 'another'",
    "removed": "DELETE FROM proposal_previews",
}


@pytest.mark.req("PV-01")
def test_every_change_of_a_stored_preview_is_refused_found_and_never_shown(stored: StoredProposals) -> None:
    stored.propose(9)  # so that the entries of the other begin later
    row = stored.propose(1, preview=FIRST)
    stored.proposals.replace_preview(row.proposal_id, SECOND, "os:ada")
    attacker = stored.world.attacker
    kept = attacker.run("SELECT * FROM proposal_previews")
    back = [("INSERT INTO proposal_previews VALUES (?, ?, ?, ?, ?, ?, ?, ?)", each) for each in kept]
    assert stored.world.verify().findings == []
    for name, statement in CHANGES.items():
        with pytest.raises(Exception, match="append-only"):
            attacker.run(statement)
        attacker.tamper(statement)
        assert stored.world.faults() & {RecordFault.ROW_EDITED, RecordFault.ROW_MISSING}, name
        if name in {"of another proposal", "removed"}:
            assert stored.proposals.preview_of(row) is None, name
        else:
            assert reason_of(stored.proposals.preview_of, row) is Reason.EVIDENCE_INVALID, name
        attacker.tamper("DELETE FROM proposal_previews", *back)
    found = stored.proposals.preview_of(row)
    assert found is not None
    assert (found.document, found.computed_by) == (SECOND.document.decode(), "os:ada")
    assert stored.world.verify().findings == []


def test_an_earlier_preview_with_its_own_signed_entry_is_not_shown_for_the_later_one(stored: StoredProposals) -> None:
    row = stored.propose(1, preview=FIRST)
    attacker = stored.world.attacker
    earlier = attacker.run("SELECT * FROM proposal_previews")[0]
    stored.proposals.replace_preview(row.proposal_id, SECOND, "os:ada")
    insert = ("INSERT INTO proposal_previews VALUES (?, ?, ?, ?, ?, ?, ?, ?)", earlier)
    attacker.tamper("DELETE FROM proposal_previews", insert)
    assert reason_of(stored.proposals.preview_of, row) is Reason.EVIDENCE_INVALID
    assert RecordFault.ROW_EDITED in stored.world.faults()


def test_a_lost_preview_can_be_computed_again_and_a_proposal_of_an_earlier_version_needs_none(
    stored: StoredProposals,
) -> None:
    old, row = stored.propose(1), stored.propose(2, preview=FIRST)
    assert stored.proposals.preview_of(old) is None
    assert stored.world.verify().findings == []
    stored.world.attacker.tamper("DELETE FROM proposal_previews")
    assert RecordFault.ROW_MISSING in stored.world.faults()
    for each in (old, row):
        stored.proposals.replace_preview(each.proposal_id, SECOND, "os:ada")
        found = stored.proposals.preview_of(each)
        assert found is not None
        assert found.preview_digest == SECOND.preview_digest
    assert stored.world.verify().findings == []


def test_the_preview_of_a_withdrawn_plan_is_removed_and_that_of_a_denied_plan_stays(stored: StoredProposals) -> None:
    withdrawn, denied = stored.propose(1, preview=FIRST), stored.propose(2, preview=FIRST)
    stored.proposals.withdraw(withdrawn.proposal_id, "agent:bot")
    stored.proposals.deny(denied.proposal_id, ADMIN.person)
    gone = "SELECT proposal_id FROM proposal_previews WHERE document IS NULL"
    assert stored.world.attacker.run(gone) == []  # the duration would tell the agent how large the preview is
    assert reason_of(stored.proposals.preview_of, stored.find(withdrawn)) is Reason.TRANSITION_INVALID
    assert stored.world.verify().findings == []
    assert stored.proposals.forget_closed_previews(share=0) == 0
    assert stored.proposals.forget_closed_previews() == 1
    assert stored.proposals.forget_closed_previews() == 0
    assert stored.world.attacker.run(gone) == [(withdrawn.proposal_id,)]
    assert reason_of(stored.proposals.preview_of, stored.find(withdrawn)) is Reason.TRANSITION_INVALID
    assert stored.proposals.preview_of(stored.find(denied)) is not None
    for row in (withdrawn, denied):
        again = stored.proposals.replace_preview
        assert reason_of(again, row.proposal_id, SECOND, "os:ada") is Reason.TRANSITION_INVALID
    assert stored.world.verify().findings == []


def test_the_database_takes_no_preview_without_its_entry(stored: StoredProposals) -> None:
    row = stored.propose()
    insert = "INSERT INTO proposal_previews VALUES (?, ?, 'd', 'd', 'os:eve', 'now', ?, '{}')"

    def forge(batch: Batch) -> None:
        entry = batch.append(NewEntry(row.tenant_id, "proposal.previewed", "another", {}))
        batch.store.execute(insert, (row.tenant_id, row.proposal_id, entry.seq))

    with pytest.raises((GuardedTableError, Exception), match=r"append-only|evidence"):
        stored.world.ledger.transact(forge)
    assert stored.proposals.preview_of(row) is None


def test_commands_say_that_none_is_stored_and_compute_it(
    office: ProposalWorkspace, capfd: pytest.CaptureFixture[str]
) -> None:
    name = without_a_preview(office)
    place = Path(office.project.root)
    show_plan(office.workspace, name, ADMIN.person, place, full=False, as_json=False)
    said = capfd.readouterr().out
    assert "none is stored" in said
    assert "approvals compute" in said
    compute_plan(office.workspace, name, ADMIN.person, place, full=False, as_json=False)
    assert "+TWO" in capfd.readouterr().out
    show_plan(office.workspace, name, ADMIN.person, place, full=False, as_json=False)
    assert "+TWO" in capfd.readouterr().out
