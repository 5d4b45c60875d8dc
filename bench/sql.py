"""Measures SQL in an approved plan against the same file of statements run by DuckDB alone, and a copy by `cp`.

Every figure of one run comes from one machine at one time. The ways take turns, and medians are compared. The exit code
is 1 if a target is missed. `bench/README.md` explains the measurements and has the results.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, Final

import duckdb

from figures import Figure, print_step, render, take_turns
from remit.core.ids import system_clock
from remit.plans import operation as plan_operation
from remit.plans.apply.executor import PlanExecutor
from remit.plans.engines.duckdb import Engine
from remit.plans.preparation import database_versions as lineages
from remit.plans.runtime.runner import PlanRunner
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

SMALL_ROWS: Final = 1_000
BYTES_A_ROW: Final = 20
"""A table of numbers that cannot be compressed. 5 million rows make 100 MB."""
TABLE: Final = """
CREATE TABLE events AS
SELECT range AS id, hash(range) AS a, hash(range + 1) AS b, (hash(range) % 1000000000)::INTEGER AS amount FROM range(?)
"""
STATEMENTS: Final = """\
-- Every tenth event counts once more, and the first thousand have a sum.
UPDATE events SET amount = amount + 1 WHERE id % 10 = 0;
CREATE OR REPLACE TABLE sums AS SELECT sum(amount) AS amount FROM events WHERE id < 1000;
"""
QUERY_FILE: Final = "change.sql"
DATABASE: Final = "events.duckdb"
PLAN: Final = json.dumps(
    {
        "plan_id": "bench",
        "action_plan": [
            {
                "action_id": "a1",
                "action_type": "SQL_EXECUTE",
                "operation": {"type": "sql_execute", "query_file": QUERY_FILE},
            }
        ],
    }
).encode()


def make_database(path: Path, rows: int) -> None:
    with duckdb.connect(str(path)) as database:
        database.execute(TABLE, [rows])


def total(path: Path) -> int:
    """Grows with every round."""
    with duckdb.connect(str(path), read_only=True) as database:
        (amount,) = database.execute("SELECT sum(amount) FROM events").fetchone() or (0,)
    return int(amount)


# --- the ways --------------------------------------------------------------------------------------------------------


class Raw:
    """DuckDB in this process: open, run the statements, write everything to the file, close. It has no undo."""

    def __init__(self, folder: Path, rows: int) -> None:
        folder.mkdir(parents=True)
        self.database = folder / DATABASE
        self._statements = folder / QUERY_FILE
        self._statements.write_text(STATEMENTS, encoding="utf-8")
        make_database(self.database, rows)

    def run(self) -> float:
        began = time.perf_counter()
        with duckdb.connect(str(self.database)) as database:
            database.execute(self._statements.read_text(encoding="utf-8"))
            database.execute("CHECKPOINT")
        return (time.perf_counter() - began) * 1e3


class Governed:
    """The same statements as a plan: the preview, which runs them, the approval, and the apply, which does not."""

    def __init__(self, folder: Path, rows: int) -> None:
        project = folder / "project"
        project.mkdir(parents=True)
        environ = {**os.environ, "REMIT_STATE": str(folder / "state")}
        initialise(project, environ, system_clock)[0].close()
        connections = {"duckdb": {"type": "duckdb", "path": DATABASE}}
        (project / "remit.yaml").write_text(json.dumps({"version": 1, "connections": connections}), encoding="utf-8")
        (project / QUERY_FILE).write_text(STATEMENTS, encoding="utf-8")
        self.database = project / DATABASE
        make_database(self.database, rows)
        self._project = project
        self.workspace = Workspace.open(project, environ=environ)

    def run(self, watching: AbstractContextManager[None] | None = None) -> float:
        """Preview, approve and apply the plan. `watching` is entered before."""
        with watching or nullcontext():
            began = time.perf_counter()
            outcome = self.workspace.apply(self.workspace.approve(PLAN))
            taken = time.perf_counter() - began
        assert outcome.tree().get("status", {}).get("status") == "SUCCESS", outcome
        return taken * 1e3

    def forget_backups(self) -> None:
        """Each has the size of the database."""
        for backup in self._project.glob("agent_outputs/*/*/backups/*"):
            backup.unlink()

    def close(self) -> None:
        self.workspace.close()


class PlainCopy:
    """The least work that allows an undo: `cp`, and fsync of the copy."""

    def __init__(self, source: Path, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._source, self._copy = source, folder / "copy"

    def run(self) -> float:
        began = time.perf_counter()
        # Not `subprocess`, because its own work would be measured too.
        child = os.posix_spawnp("cp", ["cp", str(self._source), str(self._copy)], os.environ)
        _, status = os.waitpid(child, 0)
        assert status == 0, "cp failed"
        descriptor = os.open(self._copy, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        taken = time.perf_counter() - began
        self._copy.unlink()  # not right before the next one, which would then reuse that memory
        return taken * 1e3


# --- measuring -------------------------------------------------------------------------------------------------------


class Stopwatch:
    """Measure the parts of a plan. Each of the real functions is called through a clock."""

    PARTS: Final[tuple[tuple[str, Any, str], ...]] = (
        ("copying and hashing it", lineages, "copy_database"),
        ("the SQL, in the sandbox", Engine, "run"),
        ("hashing what it left", lineages, "detach_file"),
        ("the backup", plan_operation, "back_up_files"),
        ("the exchange, in the sandbox", PlanRunner, "execute"),
        ("looking at it afterwards", PlanExecutor, "verify"),
    )
    BACKUP: Final = "the backup"

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        self.taken = dict.fromkeys((name for name, _, _ in self.PARTS), 0.0)
        with ExitStack() as stack:
            for name, owner, attribute in self.PARTS:
                real = getattr(owner, attribute)
                stack.callback(setattr, owner, attribute, real)
                setattr(owner, attribute, self._timed(name, real))
            yield

    def _timed(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        def timed(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return real(*given, **named)
            finally:
                self.taken[name] += (time.perf_counter() - began) * 1e3

        return timed


def measure_small(folder: Path, rounds: int) -> list[Figure]:
    """Measure a database that is so small that its copies cost nothing."""
    raw, governed = Raw(folder / "raw", SMALL_ROWS), Governed(folder / "governed", SMALL_ROWS)
    taken = take_turns({"raw": raw.run, "governed": governed.run}, rounds, "rounds of a small database")
    governed.close()
    assert total(raw.database) == total(governed.database), "the two did not do the same"
    middle = {name: statistics.median(values) for name, values in taken.items()}
    added = statistics.median(ours - theirs for ours, theirs in zip(taken["governed"], taken["raw"], strict=True))
    return [
        Figure("DuckDB alone, small database, p50", middle["raw"], "ms"),
        Figure("governed plan, small database, p50", middle["governed"], "ms"),
        Figure("what a plan adds to a file of statements, p50", added, "ms", most=60),
    ]


def measure_large(folder: Path, rounds: int, megabytes: int) -> list[Figure]:
    """Measure a large database. Most of the time goes to its copies."""
    rows = megabytes * 1_000_000 // BYTES_A_ROW
    print_step(f"making two databases of {rows:,} rows")
    raw, governed = Raw(folder / "raw", rows), Governed(folder / "governed", rows)
    copy = PlainCopy(governed.database, folder / "copy")
    watch = Stopwatch()
    parts: dict[str, list[float]] = {name: [] for name, _, _ in watch.PARTS}

    def run_governed() -> float:
        governed.forget_backups()
        taken = governed.run(watch.running())
        for name, values in parts.items():
            values.append(watch.taken[name])
        return taken

    taken = take_turns(
        {"cp": copy.run, "raw": raw.run, "governed": run_governed}, rounds, f"rounds of {megabytes:,} MB"
    )
    governed.close()
    assert total(raw.database) == total(governed.database), "the two did not do the same"
    middle = {name: statistics.median(values) for name, values in taken.items()}
    inside = {name: statistics.median(values[1:]) for name, values in parts.items()}
    size = f"{megabytes:,} MB"
    figures = [
        Figure(f"cp + fsync, {size}, p50", middle["cp"], "ms"),
        Figure(f"backup of an apply, {size}, p50", inside[watch.BACKUP], "ms"),
        Figure(f"backup / cp + fsync, {size}", inside[watch.BACKUP] / middle["cp"], "x", most=1.5),
        Figure(f"DuckDB alone, {size}, p50", middle["raw"], "ms"),
        Figure(f"governed plan, {size}, p50", middle["governed"], "ms"),
        Figure(f"governed plan / DuckDB alone, {size}", middle["governed"] / middle["raw"], "x"),
    ]
    figures += [Figure(f"  of it: {name}", value, "ms") for name, value in inside.items()]
    return [*figures, Figure("  of it: the rest", middle["governed"] - sum(inside.values()), "ms")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40, help="how often the ways take turns on a small database")
    parser.add_argument("--megabytes", type=int, default=100, help="size of the large database; 0 for none")
    parser.add_argument("--folder", type=Path, default=Path(".cache"), help="where to work: the disk to be measured")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    if not shutil.which("cp"):
        sys.exit("bench: cp is missing")
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=given.folder) as made:
        folder = Path(made).resolve()
        figures = measure_small(folder / "small", given.rounds)
        if given.megabytes:
            figures += measure_large(folder / "large", max(given.rounds // 4, 1), given.megabytes)
    print(json.dumps([vars(figure) for figure in figures], indent=2) if given.json else render(figures))
    return 1 if any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
