"""The outputs of a preview are kept until they are applied: within quotas, proved by digests, removed afterwards."""

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from remit.authority.envelope import issue_envelope
from remit.contracts.plans.envelope import Approvals, Envelope
from remit.contracts.plans.plan import Plan
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.crypto.keyring import load_signer
from remit.plans.model.callbacks import PlanHooks
from remit.services.plans.service import PlanService
from tests.plans.pipelines.pipeline_project import Works, pipeline
from tests.plans.project import create, plan_of, ran, refused, replace
from tests.plans.sql.shop import make_database, sql
from tests.services.plans.proposal_workspace import ADMIN, APPROVER
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.task_workspace import MovableClock

UPDATE = "UPDATE orders SET state = 'seen'"
OTHER_UPDATE = "UPDATE orders SET state = 'other'"
APPLY = """
import sys
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    workspace.apply(open(sys.argv[2], "rb").read())
"""
APPROVE = """
import sys
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    workspace.approve(open(sys.argv[2], "rb").read())
"""
PRUNE = """
import sys
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    workspace.prune()
"""


def kept(works: Works) -> list[str]:
    """The digests of the previews with kept outputs."""
    return sorted(f"sha256:{path.name}" for path in works.workspace.state.prepared.glob("*"))


def size_of(works: Works) -> int:
    return sum(path.stat().st_size for path in works.workspace.state.prepared.rglob("*") if path.is_file())


# --- kept and removed ------------------------------------------------------------------------------------------------


@pytest.mark.req("PV-03")
def test_outputs_are_private_and_removed_when_they_are_applied(works: Works) -> None:
    preview = works.workspace.preview(plan_of(sql("a1", UPDATE, connection="shop")))
    assert kept(works) == [preview.digest]
    modes = {path.stat().st_mode & 0o777 for path in works.workspace.state.prepared.rglob("*")}
    assert modes == {0o700, 0o600}
    works.apply(plan_of(sql("a1", UPDATE, connection="shop")))
    assert kept(works) == []
    assert works.left_over() == []


@pytest.mark.req("PV-03")
def test_pruning_removes_what_expired_and_nothing_that_an_approval_needs(
    open_works: Callable[..., Works],
) -> None:
    clock = MovableClock()
    works = open_works(clock=clock)
    approved = works.workspace.approve(plan_of(sql("a1", UPDATE, connection="shop")), life=timedelta(days=3))
    seen = works.workspace.preview(plan_of(sql("a1", OTHER_UPDATE, connection="shop")))
    assert works.workspace.prune() == []
    clock.offset = timedelta(hours=25)
    (would,) = works.workspace.prune(dry_run=True)
    assert (would.folder, would.what, would.size > 0) == (seen.digest, "preview", True)
    assert len(kept(works)) == 2
    (pruned,) = works.workspace.prune()
    assert pruned == would
    assert kept(works) == [approved.preview_digest]
    assert ran(works.workspace.apply(approved)).status.status == "SUCCESS"
    assert kept(works) == []
    assert works.workspace.prune() == []
    assert works.workspace.verify_ledger().holds


@pytest.mark.req("PV-03")
def test_an_expired_preview_is_not_approved_and_the_plan_is_computed_again(open_works: Callable[..., Works]) -> None:
    clock = MovableClock()
    works = open_works(clock=clock)
    plan = plan_of(sql("a1", UPDATE, connection="shop"))
    seen = works.workspace.preview(plan)
    clock.offset = timedelta(hours=25)
    with pytest.raises(RefusedError, match="expired") as refusal:
        works.workspace.approve(plan, as_seen=seen.digest)
    assert refusal.value.reason is Reason.HASH_MISMATCH
    again = works.workspace.preview(plan)
    assert (again.digest, again.document.computed_at != seen.document.computed_at) == (seen.digest, True)
    assert works.workspace.approve(plan, as_seen=again.digest).preview_digest == seen.digest


@pytest.mark.req("PV-03")
def test_a_proposal_and_an_envelope_are_never_evicted_and_a_full_quota_is_refused(
    open_works: Callable[..., Works],
) -> None:
    works = open_works()
    works.workspace.preview(plan_of(sql("a1", UPDATE, connection="shop")))
    one = size_of(works)
    works.workspace.close()
    settings = (works.root / "remit.yaml").read_text()
    (works.root / "remit.yaml").write_text(settings[:-1] + f', "limits": {{"max_prepared_bytes": {one * 2 + 100}}}}}')
    works.workspace = works.opened()
    first = works.workspace.approve(plan_of(sql("a1", UPDATE, connection="shop"), plan_id="first"))
    second = works.workspace.approve(plan_of(sql("a1", UPDATE, connection="shop"), plan_id="second"))
    before = (kept(works), works.kinds())
    with pytest.raises(RefusedError, match="max_prepared_bytes") as refusal:
        works.workspace.preview(plan_of(sql("a1", UPDATE, connection="shop"), plan_id="third"))
    assert refusal.value.reason is Reason.RESOURCE_EXHAUSTED
    assert "remit prune" in refusal.value.next_step
    assert (kept(works), works.kinds()) == (before[0], [*before[1], "request.refused"])
    assert set(kept(works)) == {first.preview_digest, second.preview_digest}
    assert ran(works.workspace.apply(first)).status.status == "SUCCESS"


@pytest.mark.req("PV-03")
def test_what_nothing_refers_to_makes_space_for_a_new_preview(open_works: Callable[..., Works]) -> None:
    works = open_works()
    works.workspace.preview(plan_of(sql("a1", UPDATE, connection="shop")))
    one = size_of(works)
    works.workspace.close()
    settings = (works.root / "remit.yaml").read_text()
    limit = f', "limits": {{"max_prepared_bytes_per_agent": {one * 2 + 100}}}}}'
    (works.root / "remit.yaml").write_text(settings[:-1] + limit)
    works.workspace = works.opened()

    def preview(plan_id: str, actor: str) -> str:
        hooks = PlanHooks(actor=actor)
        return works.workspace.plans.preview(
            plan_of(sql("a1", UPDATE, connection="shop"), plan_id=plan_id), hooks
        ).digest

    made = [preview(f"p{number}", "os:ada") for number in range(4)]
    others = preview("other", "os:bob")  # has a quota of his own
    assert set(kept(works)) >= {others, *made[2:]}
    assert made[0] not in kept(works)
    envelope = works.workspace.approve(plan_of(sql("a1", UPDATE, connection="shop"), plan_id="p3"), as_seen=made[3])
    assert ran(works.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PV-04", "PV-03")
def test_whether_an_agents_preview_is_stored_does_not_depend_on_the_size_of_outputs(
    open_works: Callable[..., Works],
) -> None:
    """An agent with plan.read would learn the size of what it may not see. A person computes it again to approve it."""
    works = open_works(limits={"max_prepared_bytes_per_agent": 1})
    plan = plan_of(sql("a1", UPDATE, connection="shop"))
    hooks = PlanHooks(actor="agent:bot")
    shown = works.workspace.plans.preview(plan, hooks, readable_if_full=True)
    stored = works.workspace.plans.previews.find(shown.digest)
    assert stored is not None
    assert (stored.document, stored.prepared_text, kept(works)) == (shown.document, None, [])
    with pytest.raises(RefusedError, match="max_prepared_bytes_per_agent"):
        works.workspace.approve(plan, as_seen=shown.digest)
    assert works.workspace.verify_ledger().holds


@pytest.mark.req("PV-03")
def test_a_closed_proposal_and_a_preview_that_was_computed_again_free_their_outputs(works: Works) -> None:
    plans = PlanService(works.workspace)
    try:
        first = plans.propose(ADMIN, plan_of(sql("a1", UPDATE, connection="shop"), plan_id="one"))
        second = plans.propose(ADMIN, plan_of(sql("a1", UPDATE, connection="shop"), plan_id="two"))
        other = plans.propose(ADMIN, plan_of(sql("a1", UPDATE, connection="shop"), plan_id="two"), key="k")
        digests = [plans.read_preview(ADMIN, one.proposal_id).preview_digest for one in (first, second)]
        assert works.workspace.prune() == []
        plans.decide(APPROVER, first.proposal_id, approved=False)
        assert [one.folder for one in works.workspace.prune()] == digests[:1]
        plans.cancel(ADMIN, second.proposal_id)
        assert works.workspace.prune() == []  # the other proposal has the same preview
        plans.cancel(ADMIN, other.proposal_id)
        assert [one.folder for one in works.workspace.prune()] == digests[1:]
        assert kept(works) == []
    finally:
        plans.close()
    assert works.workspace.verify_ledger().holds


# --- proved ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("PV-03")
def test_a_kept_output_that_was_changed_is_refused_before_anything_is_done(works: Works) -> None:
    envelope = works.workspace.approve(plan_of(sql("a1", UPDATE, connection="shop")))
    (file,) = (path for path in works.workspace.state.prepared.rglob("*") if path.is_file())
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    before = works.tree()
    assert "is not the file that was approved" in refused(works.workspace.apply(envelope))[1]
    assert works.tree() == before
    assert "plan.intent" not in works.kinds()


@pytest.mark.req("PV-01")
@pytest.mark.parametrize(
    "change",
    [
        "document = replace(document, 'READY', 'DEADY')",
        "prepared = replace(prepared, '\"unchanged\"', '\"changed\"'), document = document || ' '",
        "prepared = replace(prepared, '\"findings\":[', '\"findings\":[ ')",
        "preview_digest = 'sha256:' || substr(preview_digest, 9) || '0'",
        "plan_digest = 'sha256:0'",
        "expires_at = '2999-01-01T00:00:00.000000Z'",
        "entry_seq = 1",
    ],
)
def test_a_stored_preview_that_was_changed_is_refused_and_found(works: Works, change: str) -> None:
    plan = plan_of(create("a0", "x.txt"), sql("a1", UPDATE, connection="shop"))
    preview = works.workspace.preview(plan)
    envelope = works.workspace.approve(plan, as_seen=preview.digest)
    works.workspace.close()
    with closing(sqlite3.connect(works.workspace.state.database)) as connection:
        connection.execute(f"UPDATE plan_previews SET {change}")
        connection.commit()
    works.workspace = works.opened()
    before = works.tree()
    try:
        _, message = refused(works.workspace.apply(envelope))
    except EnvironmentFailureError as problem:
        message = str(problem)
    assert "differs from the one that the ledger recorded" in message or "not kept any more" in message
    assert works.tree() == before
    assert not works.workspace.verify_ledger().holds


@pytest.mark.req("PV-01", "PX-02")
def test_an_envelope_cannot_name_another_preview(works: Works) -> None:
    plan = plan_of(sql("a1", UPDATE, connection="shop"))
    envelope = works.workspace.approve(plan)
    other = works.workspace.preview(plan_of(sql("a1", OTHER_UPDATE, connection="shop")))
    forged = envelope.model_copy(update={"preview_digest": other.digest})
    assert "signature" in refused(works.workspace.apply(forged))[1]
    signed = _signed(works, Plan.parse(plan), envelope, preview_digest=other.digest)
    code, message = refused(works.workspace.apply(signed))
    assert code in {1003, 5001, 3001} or "preview" in message
    assert works.tree() == works.before


# --- envelopes without a preview -------------------------------------------------------------------------------------


def _signed(works: Works, plan: Plan, like: Envelope, *, preview_digest: str | None = None) -> Envelope:
    """An envelope as an earlier version, or a protocol layer outside of Remit, signs it."""
    return issue_envelope(
        load_signer(works.workspace.state.keys, "protocol"),
        plan,
        works.workspace.config.digest(),
        like.inputs,
        Approvals(protected=(), executable=(), content=(), irreversible=like.approvals.irreversible),
        works.clock(),
        timedelta(hours=1),
        preview_digest=preview_digest,
    )


@pytest.mark.req("PV-01", "PX-02")
def test_an_envelope_without_a_preview_is_applied_for_edits_only(works: Works) -> None:
    works.write("notes.txt")
    edits = plan_of(replace("a1", "notes.txt"))
    old = _signed(works, Plan.parse(edits), works.workspace.approve(edits))
    assert b"preview_digest" not in old.canonical()
    assert ran(works.workspace.apply(old.canonical())).status.status == "SUCCESS"
    for plan in (plan_of(sql("a1", UPDATE, connection="shop")), plan_of(pipeline("p1", "report"))):
        like = works.allowed(plan, *(["p1"] if b"p1" in plan else []))
        before = works.tree()
        code, message = refused(works.workspace.apply(_signed(works, Plan.parse(plan), like)))
        assert (code, "approvals.allow_without_preview" in message) == (1003, True)
        assert works.tree() == before


@pytest.mark.req("PV-01")
def test_the_configuration_can_allow_an_envelope_without_a_preview(open_works: Callable[..., Works]) -> None:
    works = open_works(approvals={"allow_without_preview": True})
    plan = plan_of(sql("a1", UPDATE, connection="shop"))
    old = _signed(works, Plan.parse(plan), works.workspace.approve(plan))
    assert ran(works.workspace.apply(old)).status.status == "SUCCESS"
    assert works.rows("SELECT DISTINCT state FROM orders") == [("seen",)]


# --- crashes and races -----------------------------------------------------------------------------------------------


@pytest.mark.req("PV-03", "PX-28")
@pytest.mark.parametrize("point", ["preview.outputs_copied", "preview.outputs_kept", "preview.recorded"])
@pytest.mark.parametrize("action", ["kill", "error"])
def test_a_preview_that_was_not_recorded_leaves_nothing_after_pruning(
    works: Works, tmp_path: Path, point: str, action: str
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(plan_of(sql("a1", UPDATE, connection="shop")))
    command = [preloaded.python(), "-c", APPROVE, str(works.root), str(plan)]
    fault = Fault(point, 1, "kill" if action == "kill" else "error")
    ended = run_child(command, fault=fault, environment=works.environ)
    assert ended.killed == (action == "kill")
    works.workspace.recover()
    works.workspace.prune()
    assert (kept(works), works.left_over()) == ([], [])
    assert not {"plan.previewed", "envelope.issued"} & set(works.kinds())
    assert works.apply(plan.read_bytes()).status.status == "SUCCESS"


@pytest.mark.req("PV-03", "PX-28")
@pytest.mark.parametrize("point", ["preview.stored", "preview.referred"])
def test_an_approval_and_its_preview_are_recorded_together(works: Works, tmp_path: Path, point: str) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(plan_of(sql("a1", UPDATE, connection="shop")))
    command = [preloaded.python(), "-c", APPROVE, str(works.root), str(plan)]
    assert run_child(command, fault=Fault(point), environment=works.environ).killed
    is_recorded = point == "preview.stored"
    works.workspace.recover()
    works.workspace.prune()
    assert {"plan.previewed", "envelope.issued"} <= set(works.kinds()) or not is_recorded
    assert len(kept(works)) == is_recorded
    assert works.left_over() == []
    assert works.apply(plan.read_bytes()).status.status == "SUCCESS"


@pytest.mark.req("PV-03", "PX-28")
@pytest.mark.parametrize("point", ["preview.released", "preview.outputs_removed"])
def test_outputs_of_an_applied_plan_are_removed_at_last(works: Works, tmp_path: Path, point: str) -> None:
    given = tmp_path / "envelope.json"
    given.write_bytes(works.workspace.approve(plan_of(sql("a1", UPDATE, connection="shop"))).canonical())
    command = [preloaded.python(), "-c", APPLY, str(works.root), str(given)]
    assert run_child(command, fault=Fault(point), environment=works.environ).killed
    assert ran(works.workspace.apply(given.read_bytes())).status.status == "SUCCESS"
    works.workspace.recover()
    works.workspace.prune()
    assert (kept(works), works.left_over()) == ([], [])
    assert works.workspace.verify_ledger().holds


@pytest.mark.req("PV-03", "PX-28")
@pytest.mark.parametrize("point", ["preview.rows_pruned", "preview.outputs_removed"])
def test_pruning_that_was_interrupted_is_finished_by_the_next_one(open_works: Callable[..., Works], point: str) -> None:
    works = open_works(clock=MovableClock())
    for number in range(3):
        works.workspace.preview(plan_of(sql("a1", UPDATE, connection="shop"), plan_id=f"p{number}"))
    with closing(sqlite3.connect(works.workspace.state.database)) as connection:
        connection.execute("UPDATE plan_previews SET kept_until = '2020-01-01T00:00:00.000000Z'")
        connection.commit()
    command = [preloaded.python(), "-c", PRUNE, str(works.root)]
    assert run_child(command, fault=Fault(point), environment=works.environ).killed
    works.workspace.recover()
    works.workspace.prune()
    assert (kept(works), works.left_over()) == ([], [])


@pytest.mark.req("PV-01", "PV-03")
def test_previews_of_one_plan_at_once_and_pruning_beside_them_agree(works: Works) -> None:
    """Four callers compute, one prunes: each digest has one row, and its outputs are whole."""
    plan = plan_of(sql("a1", UPDATE, connection="shop"))
    digests: list[str] = []
    problems: list[BaseException] = []
    stop = threading.Event()

    def compute() -> None:
        try:
            with works.opened() as workspace:
                digests.extend(workspace.preview(plan, fresh=True).digest for _ in range(3))
        except BaseException as problem:  # noqa: BLE001 - the test reports it
            problems.append(problem)

    def prune() -> None:
        with works.opened() as workspace:
            while not stop.is_set():
                workspace.prune()

    workers = [threading.Thread(target=compute) for _ in range(4)]
    pruner = threading.Thread(target=prune)
    for thread in (*workers, pruner):
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    pruner.join()
    assert problems == []
    assert set(kept(works)) == set(digests)  # more than one where DuckDB wrote other bytes for the same rows
    envelope = works.workspace.approve(plan, as_seen=digests[0])
    assert ran(works.workspace.apply(envelope)).status.status == "SUCCESS"
    assert works.workspace.verify_ledger().holds


# --- what an attack found --------------------------------------------------------------------------------------------


@pytest.mark.req("PV-03")
def test_a_refused_approval_keeps_the_outputs_that_it_recorded(works: Works) -> None:
    plan = plan_of(pipeline("p1", "report"))
    with pytest.raises(RefusedError):
        works.workspace.approve(plan)
    (digest,) = kept(works)
    envelope = works.workspace.approve(plan, irreversible=["p1"], as_seen=digest)
    assert ran(works.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PV-03")
def test_outputs_that_were_removed_are_not_approved(works: Works) -> None:
    plan = plan_of(sql("a1", UPDATE, connection="shop"))
    seen = works.workspace.preview(plan)
    works.workspace.plans.previews.release(seen.digest)
    assert kept(works) == []
    envelope = works.workspace.approve(plan, as_seen=works.workspace.preview(plan).digest)
    assert ran(works.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PV-03")
@pytest.mark.parametrize("damage", ["truncated", "removed", "a link", "a pipe", "a folder"])
def test_damaged_outputs_are_refused_and_a_new_preview_replaces_them(works: Works, damage: str) -> None:
    plan = plan_of(sql("a1", UPDATE, connection="shop"))
    envelope = works.workspace.approve(plan)
    (file,) = (path for path in works.workspace.state.prepared.rglob("*") if path.is_file())
    if damage == "truncated":
        os.truncate(file, 10)
    else:
        file.unlink()
    if damage == "a link":
        file.symlink_to(works.database)
    if damage == "a pipe":
        os.mkfifo(file)
    if damage == "a folder":
        file.mkdir()
    before = works.tree()
    assert "kept" in refused(works.workspace.apply(envelope))[1]
    assert works.tree() == before
    again = works.workspace.approve(plan, as_seen=works.workspace.preview(plan).digest)
    assert ran(works.workspace.apply(again)).status.status == "SUCCESS"


@pytest.mark.req("PV-03")
def test_approvals_beside_a_loop_of_pruning_keep_their_outputs(works: Works) -> None:
    stop = threading.Event()

    def prune() -> None:
        with works.opened() as workspace:
            while not stop.is_set():
                workspace.prune()

    pruners = [threading.Thread(target=prune) for _ in range(2)]
    for thread in pruners:
        thread.start()
    try:
        plans = [plan_of(sql("a1", UPDATE, connection="shop"), plan_id=f"p{number}") for number in range(12)]
        envelopes = [works.workspace.approve(plan) for plan in plans]
    finally:
        stop.set()
        for thread in pruners:
            thread.join()
    assert {envelope.preview_digest for envelope in envelopes} == set(kept(works))


@pytest.mark.req("PV-03")
def test_a_cancelled_approval_and_a_preview_computed_again_need_no_space(open_works: Callable[..., Works]) -> None:
    works = open_works()
    plan = plan_of(sql("a1", UPDATE, connection="shop"))
    digest = works.workspace.preview(plan).digest
    one = size_of(works)
    works.workspace.close()
    settings = (works.root / "remit.yaml").read_text()
    (works.root / "remit.yaml").write_text(settings[:-1] + f', "limits": {{"max_prepared_bytes": {one + 100}}}}}')
    works.workspace = works.opened()
    envelope = works.workspace.approve(plan)
    assert works.workspace.preview(plan, fresh=True).digest == envelope.preview_digest  # counted once
    works.workspace.cancel(envelope.envelope_id)
    other = works.workspace.approve(plan_of(sql("a1", UPDATE, connection="shop"), plan_id="other"))
    assert kept(works) == [other.preview_digest]
    assert digest != other.preview_digest


@pytest.mark.req("PV-01")
def test_a_database_that_is_new_in_a_folder_that_a_pipeline_reads_is_noticed(open_works: Callable[..., Works]) -> None:
    connections = {
        "shop": {"type": "duckdb", "path": "data/shop.duckdb"},
        "new": {"type": "duckdb", "path": "notes/new.duckdb"},
    }
    works = open_works(connections=connections)
    envelope = works.allowed(plan_of(pipeline("p1", "report")), "p1")
    make_database(works.root / "notes" / "new.duckdb", "CREATE TABLE t AS SELECT 1 AS a")
    code, message = refused(works.workspace.apply(envelope))
    assert (code, "notes/new.duckdb" in message) == (1003, True), message
