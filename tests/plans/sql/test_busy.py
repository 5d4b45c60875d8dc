"""A database that another program has open: found before, in between and at the end; nothing is lost."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from remit.contracts.plans.status import StatusUpdate
from remit.core.errors import Reason, RefusedError
from remit.execution.engine import IncompleteError
from tests.plans.project import at_phase, plan_of, ran, refused, replace
from tests.plans.sql.shop import DATABASE, Shop, held_open, rows, sql
from tests.plans.sql.test_changes import UPDATE

READ = "SELECT count(*) AS n FROM orders"

pytestmark = pytest.mark.req("PX-18")


@contextmanager
def held_open_at(shop: Shop, phase: str, *, read_only: bool = False) -> Iterator[Callable[[StatusUpdate], None]]:
    """For `on_status`: another process opens the database when the plan comes to a phase, until the block ends."""
    with ExitStack() as stack:
        entered: list[str] = []

        def enter() -> None:
            stack.enter_context(held_open(shop.database, read_only=read_only))
            entered.append(phase)

        yield at_phase(phase, enter)
        assert entered


def problems(shop: Shop, *texts: str) -> list[str]:
    plan = plan_of(*(sql(f"a{number}", text) for number, text in enumerate(texts)))
    return [problem.message for problem in shop.workspace.preview(plan).document.problems]


def test_another_process_that_writes_blocks_changes_and_reads(shop: Shop) -> None:
    with held_open(shop.database):
        for text in (UPDATE, READ):
            (message,) = problems(shop, text)
            assert "this database is in use" in message
    assert problems(shop, UPDATE) == []


def test_another_process_that_reads_is_in_the_way_of_changes_only(shop: Shop) -> None:
    with held_open(shop.database, read_only=True):
        (message,) = problems(shop, UPDATE)
        assert "another program has it open" in message
        assert problems(shop, READ) == []


def test_changes_that_are_in_no_file_yet_are_seen(shop: Shop) -> None:
    with held_open(shop.database, dirty=True):
        assert (shop.root / f"{DATABASE}.wal").exists()
        (message,) = problems(shop, READ)
        assert "this database is in use" in message


def test_a_log_that_a_killed_program_left_is_not_ignored(shop: Shop) -> None:
    shop.write(f"{DATABASE}.wal", b"whatever")
    before = shop.tree()
    (message,) = problems(shop, UPDATE)
    assert ".wal" in message
    assert "DuckDB once" in message
    assert shop.tree() == before


def test_a_database_that_is_in_use_leaves_the_approval_unused(shop: Shop) -> None:
    """By one who writes, by one who reads, and by a log that somebody left."""
    envelope, before = shop.approve(plan_of(sql("a1", UPDATE))).canonical(), shop.tree()
    for read_only in (False, True):
        with held_open(shop.database, read_only=read_only):
            code, message = refused(shop.workspace.apply(envelope))
        assert (code, "this database is in use" in message, "the approval was not used" in message) == (
            2011,
            True,
            True,
        )
    log = shop.write(f"{DATABASE}.wal", b"whatever")
    assert refused(shop.workspace.apply(envelope))[0] == 2011
    log.unlink()
    assert "plan.intent" not in shop.kinds()
    assert shop.tree() == before
    assert ran(shop.workspace.apply(envelope)).status.status == "SUCCESS"
    assert shop.rows("SELECT DISTINCT state FROM orders") == [("done",)]


@pytest.mark.req("PX-10", "PX-22")
@pytest.mark.parametrize("back", [True, False])
def test_what_a_plan_does_to_a_database_in_use_cannot_be_approved(shop: Shop, back: bool) -> None:  # noqa: FBT001
    """Whatever the flags say of actions that fail: the effect is not known while the database is in use."""
    shop.write("notes.txt")
    plan = plan_of(sql("a1", UPDATE), replace("a2", "notes.txt"), stop_on_error=False, rollback_on_failure=back)
    before = shop.tree()
    with held_open(shop.database):
        document = shop.workspace.preview(plan).document
        assert (document.status, document.would_end) == ("WOULD_FAIL", "ROLLED_BACK" if back else "PARTIAL")
        with pytest.raises(RefusedError) as refusal:
            shop.approve(plan, even_if_it_fails=True)
        assert refusal.value.reason is Reason.DATABASE_BUSY
        assert "preview the plan again" in refusal.value.next_step
        assert shop.tree() == before
    assert "envelope.issued" not in shop.kinds()
    assert shop.approve(plan).preview_digest is not None


def test_a_database_opened_between_preview_and_checkpoint_refuses_the_plan(shop: Shop) -> None:
    envelope, before = shop.approve(plan_of(sql("a1", UPDATE))).canonical(), shop.tree()
    with held_open_at(shop, "CHECKPOINT") as listen:
        _, message = refused(shop.workspace.apply(envelope, on_status=listen))
        assert "this database is in use" in message
    assert shop.tree() == before


def test_a_database_opened_while_it_is_exchanged_rolls_back_the_plan(shop: Shop) -> None:
    """He has the new file: what he writes to it would be lost by a rollback that did not know of him."""
    envelope, before = shop.approve(plan_of(sql("a1", UPDATE))).canonical(), shop.tree()
    with held_open_at(shop, "VERIFYING", read_only=True) as listen:
        outcome = ran(shop.workspace.apply(envelope, on_status=listen))
    assert outcome.status.status == "ROLLED_BACK"
    assert "in use" in outcome.errors[0].message
    assert shop.tree() == before


def test_a_log_that_appears_while_it_is_exchanged_leaves_the_plan_to_recovery(shop: Shop) -> None:
    """Nobody can tell whether it belongs to the old file or to the new one: it is not mixed with either."""
    envelope, before = shop.approve(plan_of(sql("a1", UPDATE))).canonical(), shop.tree()
    log = shop.root / f"{DATABASE}.wal"
    with pytest.raises(IncompleteError, match="in use"):
        shop.workspace.apply(envelope, on_status=at_phase("VERIFYING", lambda: log.write_bytes(b"x")))
    log.unlink()
    (report,) = shop.workspace.recover()
    assert isinstance(report.outcome, PlanOutcome)
    assert report.outcome.status.status == "ROLLED_BACK"
    assert shop.tree() == before


def test_the_database_stays_as_before_if_another_process_opens_the_old_file(shop: Shop) -> None:
    """Opened after the last look, before the exchange: by name he would mix his log with the new file."""
    envelope, before = shop.approve(plan_of(sql("a1", UPDATE))).canonical(), shop.tree()
    with held_open_at(shop, "RUNNING") as listen:
        outcome = ran(shop.workspace.apply(envelope, on_status=listen))
    assert outcome.status.status in {"ROLLED_BACK", "FAILED"}
    assert shop.tree() == before
    assert rows(shop.database, READ) == [(3,)]


def test_the_new_file_is_not_removed_while_another_process_writes_to_it(shop: Shop) -> None:
    """With the old file back in its place, his log would be taken for that one's."""
    envelope, before = shop.approve(plan_of(sql("a1", UPDATE))).canonical(), shop.tree()
    with held_open_at(shop, "VERIFYING") as listen:
        with pytest.raises(IncompleteError, match="in use"):
            shop.workspace.apply(envelope, on_status=listen)
        (report,) = shop.workspace.recover()
        assert report.problem is not None
        assert "in use" in str(report.problem)
    assert shop.rows("SELECT DISTINCT state FROM orders") == [("done",)]
    (report,) = shop.workspace.recover()
    assert report.problem is None
    assert isinstance(report.outcome, PlanOutcome)
    assert report.outcome.status.status == "ROLLED_BACK"
    assert shop.tree() == before
