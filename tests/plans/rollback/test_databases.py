"""Databases on the way back, large or in use: restored whole, whatever the limits are by now; or not touched at all."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pytest

from remit.contracts.plans.outcome import PlanOutcome, RollbackOutcome
from remit.execution.engine import IncompleteError
from remit.plans.rollback import operation as rollback
from tests.plans.project import Project, delete, plan_of, rename
from tests.plans.sql.shop import CONNECTIONS, DATABASE, Shop, held_open, sql
from tests.support.sampling import some

UPDATE = "UPDATE orders SET state = 'done' WHERE state = 'open'"
MIB = 1 << 20
BUSY = 2011


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.close()


def run_script(
    project: Project, outcome: PlanOutcome, *arguments: str, memory: int | None = None
) -> subprocess.CompletedProcess[str]:
    script = str(project.report_folder(outcome) / "rollback.py")
    return subprocess.run(
        [sys.executable, "-I", script, *arguments],
        env={},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=None if memory is None else lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)),
    )


def reopened(shop: Shop, **settings: object) -> None:
    """By somebody who has other limits."""
    shop.close()
    (shop.root / "remit.yaml").write_text(json.dumps({"version": 1, "connections": CONNECTIONS, **settings}))
    shop.workspace = shop.opened()


def grown(path: Path, size: int) -> None:
    """With as many numbers in it as make this size."""
    with duckdb.connect(str(path)) as database:
        database.execute("PRAGMA force_compression = 'uncompressed'")
        database.execute(f"CREATE TABLE numbers AS SELECT range AS a FROM range({size // 8})")
    assert path.stat().st_size >= size


def busy_ways(shop: Shop) -> dict[str, AbstractContextManager[None]]:
    return {
        "writer": held_open(shop.database),
        "reader": held_open(shop.database, read_only=True),
        "changes": held_open(shop.database, dirty=True),
        "log": nullcontext(),
    }


# --- large -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.req("PX-15", "PX-17", "PX-18", "PX-20")
def test_a_hundred_megabytes_are_changed_and_rolled_back_by_command_and_by_the_script(shop: Shop) -> None:
    grown(shop.database, 100 * MIB)
    before = shop.digest()
    outcome = shop.apply(plan_of(sql("a1", UPDATE)))
    assert outcome.status.status == "SUCCESS", outcome.errors
    after = shop.digest()
    assert after != before

    reopened(
        shop,
        limits={"max_memory_bytes": 40 * MIB, "max_file_bytes": 1, "max_backup_bytes": 1, "max_io_bytes": 1},
    )
    rolled = shop.workspace.rollback("last")
    assert (rolled.status, rolled.errors) == ("EXECUTED", ())
    assert shop.digest() == before

    reopened(shop)
    again = shop.apply(plan_of(sql("a1", UPDATE)))
    assert again.status.status == "SUCCESS"
    ended = run_script(shop, again, memory=90 * MIB)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert shop.digest() == before


@pytest.mark.req("PX-15", "PX-20")
def test_a_large_database_that_a_plan_has_made_is_removed_whatever_the_limits_are(shop: Shop) -> None:
    before = shop.tree()
    made = "CREATE TABLE t AS SELECT md5(random()::VARCHAR) AS a FROM range(200000)"
    assert shop.apply(plan_of(sql("a1", made, connection="new"))).status.status == "SUCCESS"
    reopened(shop, limits={"max_file_bytes": 1_000})
    assert shop.workspace.rollback("last").status == "EXECUTED"
    assert shop.tree() == before


# --- in use ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("PX-15", "PX-18")
@pytest.mark.parametrize("how", some(["writer", "reader", "changes", "log"], 2))
@pytest.mark.parametrize("force", [False, True])
def test_a_database_that_is_in_use_is_not_rolled_back(shop: Shop, how: str, force: bool) -> None:  # noqa: FBT001
    beside, before = shop.write("notes.txt"), shop.digest()
    outcome = shop.apply(plan_of(sql("a1", UPDATE), delete("a2", "notes.txt")))
    log = shop.database.with_name(f"{shop.database.name}.wal")
    if how == "log":
        log.write_bytes(b"left by a program that was killed")
    with busy_ways(shop)[how]:
        after = shop.digest()
        rolled = shop.workspace.rollback("last", force=force)
        assert (rolled.status, [error.error_code for error in rolled.errors]) == ("REFUSED", [BUSY])
        assert DATABASE in rolled.errors[0].message
        ended = run_script(shop, outcome, *(["--force"] if force else []))
        assert ended.returncode == 2
        assert DATABASE in ended.stdout
        assert "Nothing was restored" in ended.stdout
        assert shop.digest() == after
        assert not beside.exists(), "nor was anything else"
        assert not list(shop.root.rglob(".remit-*"))
    log.unlink(missing_ok=True)
    if how in {"writer", "reader", "log"}:
        assert shop.workspace.rollback("last").status == "EXECUTED"
        assert shop.digest() == before
        assert beside.exists()


@pytest.mark.req("PX-15")
def test_a_log_without_its_database_is_in_the_way_of_what_is_restored(shop: Shop) -> None:
    """DuckDB would take the changes in it into the restored file."""
    outcome = shop.apply(plan_of(delete("a1", DATABASE)))
    log = shop.database.with_name(f"{shop.database.name}.wal")
    log.write_bytes(b"of another database")
    rolled = shop.workspace.rollback("last")
    assert (rolled.status, [error.error_code for error in rolled.errors]) == ("REFUSED", [BUSY])
    assert run_script(shop, outcome).returncode == 2
    assert not shop.database.exists()
    log.unlink()
    assert run_script(shop, outcome).returncode == 0
    assert len(shop.rows("FROM orders")) == 3


@pytest.mark.req("PX-15")
def test_a_database_that_was_renamed_is_checked_where_it_is_now(shop: Shop) -> None:
    outcome = shop.apply(plan_of(rename("a1", DATABASE, "data/moved.duckdb")))
    with held_open(shop.root / "data/moved.duckdb", read_only=True):
        rolled = shop.workspace.rollback("last")
        assert [error.error_code for error in rolled.errors] == [BUSY]
        assert run_script(shop, outcome).returncode == 2
    assert run_script(shop, outcome).returncode == 0
    assert shop.database.exists()


@pytest.mark.req("PX-15")
def test_a_database_opened_before_the_exchange_stays_as_the_plan_left_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.apply(plan_of(sql("a1", UPDATE)))
    after = shop.tree()
    log = write_a_log_before(shop, monkeypatch, "make_folders")
    rolled = shop.workspace.rollback("last")
    assert (rolled.status, [error.error_code for error in rolled.errors]) == ("FAILED", [BUSY])
    log.unlink()
    assert shop.tree() == after


@pytest.mark.req("PX-15")
def test_a_database_opened_after_the_exchange_is_left_until_it_is_closed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To go back now would bring the log of one file to the other."""
    shop.apply(plan_of(sql("a1", UPDATE)))
    after = shop.tree()
    log = write_a_log_before(shop, monkeypatch, "require_as_planned")
    with pytest.raises(IncompleteError, match="this database is in use"):
        shop.workspace.rollback("last")
    monkeypatch.undo()
    log.unlink()
    (report,) = shop.workspace.recover()
    assert isinstance(report.outcome, RollbackOutcome)
    assert report.outcome.status == "FAILED"
    assert shop.tree() == after


def write_a_log_before(shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    """Somebody begins to write right before this function of the rollback door."""
    log = shop.database.with_name(f"{shop.database.name}.wal")
    real: Any = getattr(rollback, name)

    def meanwhile(*arguments: Any, **named: Any) -> Any:
        log.write_bytes(b"somebody begins to write")
        return real(*arguments, **named)

    monkeypatch.setattr(rollback, name, meanwhile)
    return log


def test_a_log_beside_a_file_that_is_no_database_is_ignored(shop: Shop) -> None:
    shop.write("notes.txt")
    shop.write("notes.txt.wal", "a file of that name")
    before = shop.tree()
    shop.apply(plan_of(delete("a1", "notes.txt")))
    assert shop.workspace.rollback("last").status == "EXECUTED"
    assert shop.tree() == before


def test_a_database_that_is_as_before_already_may_be_in_use(shop: Shop) -> None:
    shop.write("notes.txt")
    before = shop.database.read_bytes()
    outcome = shop.apply(plan_of(sql("a1", UPDATE), delete("a2", "notes.txt")))
    shop.database.write_bytes(before)
    with held_open(shop.database, read_only=True):
        assert shop.workspace.rollback("last").status == "EXECUTED"
    assert outcome.status.status == "SUCCESS"
    assert (shop.root / "notes.txt").exists()
