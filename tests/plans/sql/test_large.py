"""A table of five million rows, 100 MB, migrated by a plan and taken back: to the byte, and not through our memory."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from remit.contracts.plans.outcome import RollbackOutcome
from tests.plans.project import plan_of
from tests.plans.sql.shop import Shop, make_database, sql

ROWS: Final = 5_000_000
DATABASE: Final = "data/events.duckdb"
TABLE: Final = f"""
CREATE TABLE events AS
SELECT range AS id, hash(range) AS a, hash(range + 1) AS b, (hash(range) % 1000000000)::INTEGER AS amount
FROM range({ROWS})
"""
MIGRATION: Final = """
-- Every fourth event is of another kind, and counts for more.
ALTER TABLE events ADD COLUMN kind VARCHAR DEFAULT 'plain';
UPDATE events SET kind = 'fourth', amount = amount + 1 WHERE id % 4 = 0;
"""
SUMS: Final = "SELECT count(*), sum(amount) FROM events"
KINDS: Final = "SELECT kind, count(*) FROM events GROUP BY kind ORDER BY kind"
MOST_MEMORY: Final = 64 << 20
"""How much this process may grow by. A copy of the database would be 100 MB."""


class Memory:
    """The most that this process has had in memory since it was last asked to begin anew."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = self._peak()

    @property
    def grown(self) -> int:
        return self._peak() - self._before

    def _peak(self) -> int:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        assert found is not None
        return int(found[1]) << 10


@pytest.mark.long
@pytest.mark.req("PX-18", "PX-20")
def test_five_million_rows_are_migrated_and_rolled_back_byte_for_byte(open_shop: Callable[..., Shop]) -> None:
    shop = open_shop(connections={"duckdb": {"type": "duckdb", "path": DATABASE}})
    make_database(shop.root / DATABASE, TABLE)
    assert (shop.root / DATABASE).stat().st_size > 90_000_000
    before = shop.digest(DATABASE)
    ((count, amount),) = shop.rows(SUMS, DATABASE)
    assert count == ROWS
    shop.write("migration.sql", MIGRATION)
    memory = Memory()

    outcome = shop.apply(plan_of(sql("a1", query_file="migration.sql")))

    assert outcome.status.status == "SUCCESS"
    assert memory.grown < MOST_MEMORY
    (told,) = outcome.report.sql
    assert [(one.kind, one.rows_changed) for one in told.statements] == [("ALTER", None), ("UPDATE", ROWS // 4)]
    assert shop.rows(SUMS, DATABASE) == [(ROWS, amount + ROWS // 4)]
    assert shop.rows(KINDS, DATABASE) == [("fourth", ROWS // 4), ("plain", ROWS * 3 // 4)]

    memory = Memory()
    back = shop.workspace.rollback("last")
    assert isinstance(back, RollbackOutcome)
    assert back.status == "EXECUTED"
    assert memory.grown < MOST_MEMORY
    assert shop.digest(DATABASE) == before
    assert shop.rows(SUMS, DATABASE) == [(ROWS, amount)]
    assert shop.left_over() == []
