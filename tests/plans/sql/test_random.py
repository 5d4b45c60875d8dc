"""Whatever statements a plan runs, in whatever order: done as the engine itself would do it, and taken back whole.

8 sequences by default; REMIT_LONG=1: at least 500 that changed something.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, example, given, settings

from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.outcome import PlanOutcome
from remit.core.errors import RefusedError
from tests.plans.project import plan_of, ran
from tests.plans.sql.shop import DATABASE, Shop, make_database, sql
from tests.plans.sql.warehouse import WAREHOUSE, dump, run_by_hand, sequences

LONG: Final = os.environ.get("REMIT_LONG") == "1"
ENOUGH: Final = 500 if LONG else 3
FAILING: Final = [["DELETE FROM plain", "CREATE VIEW n0 AS FROM plain"], ["DELETE FROM orders", "DROP TABLE people"]]
random_sequences = settings(
    max_examples=1_500 if LONG else 8,
    deadline=None,
    derandomize=not LONG,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class Warehouse:
    """One workspace for many sequences. What each of them came to is counted."""

    def __init__(self, folder: Path) -> None:
        self.shop = Shop(folder)
        self.shop.database.unlink()
        make_database(self.shop.database, WAREHOUSE)
        self.shop.write("notes.txt")
        self.before, self.dump = self.shop.tree(), dump(self.shop.database)
        self.copy = folder / "by-hand" / self.shop.database.name
        self.copy.parent.mkdir()
        self.counts: Counter[str] = Counter()

    def try_out(self, texts: Sequence[str]) -> None:
        """Approved, which is to say previewed; applied; taken back."""
        actions = [sql(f"a{number}", text) for number, text in enumerate(texts)]
        shutil.copyfile(self.shop.database, self.copy)
        failure = run_by_hand(self.copy, texts)
        try:
            envelope = self.shop.approve(plan_of(*actions))
        except RefusedError:
            envelope = None
        assert (envelope is None) == bool(failure), failure
        assert self.shop.tree() == self.before
        if envelope is None:
            self._fail(plan_of(*actions, stop_on_error=False))
        else:
            self._do_and_take_back(envelope)
        self.require_as_before()

    def restore(self) -> None:
        """After a failure, so that a smaller one can be looked for."""
        bytes_before, _, time_ns = self.before[DATABASE] or (b"", 0, 0)
        self.shop.database.write_bytes(bytes_before)
        os.utime(self.shop.database, ns=(time_ns, time_ns))

    def _do_and_take_back(self, envelope: Envelope) -> None:
        outcome = ran(self.shop.workspace.apply(envelope.canonical()))
        assert outcome.status.status == "SUCCESS", outcome.errors
        left = dump(self.shop.database)
        assert left == dump(self.copy)
        self.counts["changed" if left != self.dump else "unchanged"] += 1
        if self.shop.tree() != self.before:
            assert self.shop.workspace.rollback("last").status == "EXECUTED"
        self._forget(outcome)

    def _fail(self, plan: bytes) -> None:
        """Approved all the same, it runs up to the statement that fails, and nothing of it stays."""
        envelope = self.shop.approve(plan, even_if_it_fails=True)
        outcome = ran(self.shop.workspace.apply(envelope.canonical()))
        assert outcome.status.status in {"ROLLED_BACK", "FAILED"}, outcome.status
        self.counts["failed"] += 1
        self._forget(outcome)

    def _forget(self, outcome: PlanOutcome) -> None:
        """Papers and backups of a thousand sequences would fill a disk."""
        shutil.rmtree(self.shop.report_folder(outcome))

    def require_as_before(self) -> None:
        assert self.shop.tree() == self.before
        if not LONG or self.counts.total() % 10 == 0:  # the same bytes hold the same
            assert dump(self.shop.database) == self.dump
        assert self.shop.left_over() == []


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    made = Warehouse(tmp_path_factory.mktemp("warehouse"))
    yield made
    made.shop.close()


@pytest.mark.req("PX-18", "PX-20")
@pytest.mark.timeout(3_600 if LONG else 120)
def test_any_sequence_of_statements_is_rolled_back_completely(warehouse: Warehouse) -> None:
    @random_sequences
    @given(sequences())
    @example(FAILING)
    def each(texts: list[list[str]]) -> None:
        if warehouse.counts["changed"] >= ENOUGH and LONG:
            return
        try:
            warehouse.try_out([";\n".join(statements) for statements in texts])
        except BaseException:
            warehouse.restore()
            raise

    each()
    assert warehouse.counts["changed"] >= ENOUGH, warehouse.counts
    assert warehouse.counts["failed"] > 0, warehouse.counts
    assert warehouse.shop.workspace.verify_ledger().holds
    assert DATABASE in warehouse.before
