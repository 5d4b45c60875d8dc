"""Measures a durable append: against the disk, against a bare commit, with many callers, and in a large ledger.

Every figure of one run comes from one machine at one time, and the claims are ratios within that run. The exit code is
1 if a target is missed. `bench/README.md` explains the measurements and has the results.
"""

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from figures import Figure, print_step, progress, render
from remit.core.ids import system_clock
from remit.crypto.keyring import create_keys, load_keyring, load_signer
from remit.ledger.entry import COLUMNS, Entry, NewEntry
from remit.ledger.heads import Anchors
from remit.ledger.verify.verifier import verify_store
from remit.ledger.writer import Batch, Ledger
from remit.store.migrations_runner import migrate
from remit.store.sqlite import SqliteStore

PAGE: Final = 4096
WAL_HEADER: Final = 32
WAL_FRAME: Final = PAGE + 24
CALLERS: Final = 32
SMALL: Final = 10_000
PER_TRANSACTION: Final = 100
"""Entries in each transaction of the large ledger. A busy host puts as many under one signed head."""
TENANT: Final = "bench"
INSERT_BARE: Final = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


# --- a ledger to measure ---------------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    create_keys(folder / "keys", system_clock)
    migrate(SqliteStore.create(folder / "ledger.sqlite3"), system_clock)


def open_ledger(folder: Path) -> Ledger:
    signer = load_signer(folder / "keys", "audit")
    store = SqliteStore(folder / "ledger.sqlite3")
    keyring = load_keyring(folder / "keys")
    return Ledger(store, lambda: signer, lambda: keyring, Anchors(folder / "anchors"), system_clock)


def event(number: int) -> NewEntry:
    # A random correlation id is the worst case for its index, because each one goes to another page.
    payload = {"number": number, "path": "src/remit/example.py", "summary": "moved one file, and kept undo data" * 2}
    return NewEntry(TENANT, "bench.append", str(uuid4()), payload, task_id=f"task-{number}", capability_id="FILE_MOVE")


# --- one caller ------------------------------------------------------------------------------------------------------


def measure_single(folder: Path, rounds: int, block: int) -> list[Figure]:
    """The three ways take turns, block by block, so that a slow moment of the disk hits all of them."""
    folder.mkdir()
    prepare(folder)
    with closing(open_ledger(folder)) as ledger, closing(bare_database(folder / "bare.sqlite3")) as bare:
        sample = ledger.append(event(0))
        raw = os.open(folder / "raw", os.O_CREAT | os.O_WRONLY, 0o600)
        seconds: dict[str, list[float]] = {"raw": [], "bare": [], "append": []}
        with progress("one caller", rounds) as report:
            for number in range(rounds + 1):
                rows = [bare_row(sample, number * block + each) for each in range(block)]
                events = [event(number * block + each) for each in range(block)]
                seconds["raw"].append(mean_time(lambda _: raw_write(raw), rows))
                seconds["bare"].append(mean_time(lambda row: bare_commit(bare, row), rows))
                seconds["append"].append(mean_time(ledger.append, events))
                report(number)
        os.close(raw)
    for times in seconds.values():
        del times[0]  # the first round warms the caches
    ratios = [append / bare for append, bare in zip(seconds["append"], seconds["bare"], strict=True)]
    return [
        Figure("raw 4 KiB write + fsync", statistics.median(seconds["raw"]) * 1e3, "ms"),
        Figure("bare SQLite commit of the same row", statistics.median(seconds["bare"]) * 1e3, "ms"),
        Figure("durable append, one caller", statistics.median(seconds["append"]) * 1e3, "ms"),
        Figure("durable append / bare commit", statistics.median(ratios), "x", most=3),
    ]


def mean_time(way: Callable[[Any], object], things: list[Any]) -> float:
    began = time.perf_counter()
    for thing in things:
        way(thing)
    return (time.perf_counter() - began) / len(things)


def raw_write(descriptor: int) -> None:
    os.write(descriptor, b"x" * PAGE)
    os.fsync(descriptor)


def bare_database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"CREATE TABLE entries ({COLUMNS}, PRIMARY KEY (tenant_id, seq))")
    return connection


def bare_row(entry: Entry, seq: int) -> tuple[Any, ...]:
    return tuple(seq if name == "seq" else getattr(entry, name) for name in COLUMNS.replace(" ", "").split(","))


def bare_commit(connection: sqlite3.Connection, row: tuple[Any, ...]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(INSERT_BARE, row)
    connection.execute("COMMIT")


# --- many callers ----------------------------------------------------------------------------------------------------


def append_from_many(folder: Path, each: int) -> float:
    """Entries a second, durable, with 32 callers."""
    with closing(open_ledger(folder)) as ledger:
        start = threading.Barrier(CALLERS + 1)

        def call() -> None:
            start.wait()
            for number in range(each):
                ledger.append(event(number))

        callers = [threading.Thread(target=call) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        start.wait()
        began = time.perf_counter()
        for caller in callers:
            caller.join()
        return CALLERS * each / (time.perf_counter() - began)


def measure_many(folder: Path, each: int) -> list[Figure]:
    folder.mkdir()
    prepare(folder)
    append_from_many(folder, 10)
    rate = append_from_many(folder, each)
    few, many = 5, max(each // 4, 20)
    syncs = count_syncs(folder, many) - count_syncs(folder, few)
    return [
        Figure(f"durable appends, {CALLERS} callers", rate, "entries/s"),
        Figure(f"fsyncs an entry, {CALLERS} callers", syncs / (CALLERS * (many - few)), "", most=0.2),
    ]


def count_syncs(folder: Path, each: int) -> int:
    """Real fsync and fdatasync calls of a process and its threads, as the kernel saw them."""
    print_step(f"counting fsyncs, {CALLERS} callers")
    strace = shutil.which("strace")
    if strace is None:
        sys.exit("bench: strace is not installed; on Debian: apt-get install strace")
    log = folder / "syncs"
    child = [sys.executable, __file__, "--child", "append", str(folder), str(each)]
    subprocess.run(
        [strace, "-f", "--seccomp-bpf", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(log), *child], check=True
    )
    return sum("sync(" in line for line in log.read_text().splitlines())


# --- a large ledger --------------------------------------------------------------------------------------------------


def grow(folder: Path, have: int, wanted: int) -> None:
    """Append up to `wanted` entries with the real code, many in each transaction."""
    with closing(open_ledger(folder)) as ledger, progress("growing the ledger", wanted) as report:
        for first in range(have, wanted, PER_TRANSACTION):
            span = range(first, min(first + PER_TRANSACTION, wanted))

            def work(batch: Batch, span: range = span) -> None:
                for number in span:
                    batch.append(event(number))

            ledger.transact(work)
            report(first)


def pages_per_append(folder: Path, appends: int = 100) -> float:
    """Pages that one append alone writes, counted as frames in the write-ahead log, which is emptied first."""
    database = folder / "ledger.sqlite3"
    with closing(open_ledger(folder)) as ledger:
        ledger.append(event(0))
        with closing(sqlite3.connect(database)) as connection:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert busy == 0
        for number in range(appends):
            ledger.append(event(number))
        size = database.with_name(database.name + "-wal").stat().st_size
    return (size - WAL_HEADER) / WAL_FRAME / appends


def verify(folder: Path) -> dict[str, float]:
    """Verify in a child process, so that its peak memory is measured alone."""
    print_step("verifying the ledger")
    child = [sys.executable, __file__, "--child", "verify", str(folder), "0"]
    done = subprocess.run(child, check=True, stdout=subprocess.PIPE)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure_large(folder: Path, entries: int) -> list[Figure]:
    folder.mkdir()
    prepare(folder)
    small = min(SMALL, entries // 10)
    grow(folder, 0, small)
    pages_small, seen_small = pages_per_append(folder), verify(folder)
    grow(folder, small, entries)
    pages_large, seen_large = pages_per_append(folder), verify(folder)
    assert seen_large["entries"] >= entries
    size = (folder / "ledger.sqlite3").stat().st_size
    return [
        Figure(f"pages written an append, at {small:,}", pages_small, "pages"),
        Figure(f"pages written an append, at {entries:,}", pages_large, "pages"),
        Figure("growth of the cost of an append", pages_large / pages_small, "x", most=1.2),
        Figure(f"verifying {small:,}: time", seen_small["seconds"], "s"),
        Figure(f"verifying {small:,}: peak memory", seen_small["peak_mb"], "MB"),
        Figure(f"verifying {entries:,}: time", seen_large["seconds"], "s"),
        Figure(f"verifying {entries:,}: peak memory", seen_large["peak_mb"], "MB"),
        Figure("growth of the peak memory", seen_large["peak_mb"] / seen_small["peak_mb"], "x", most=1.2),
        Figure(f"size of {entries:,} entries on disk", size / 2**20, "MB"),
    ]


# --- children and the result -----------------------------------------------------------------------------------------


def run_child(work: str, folder: Path, each: int) -> None:
    if work == "append":
        append_from_many(folder, each)
        return
    began = time.perf_counter()
    store, anchors = SqliteStore(folder / "ledger.sqlite3"), Anchors(folder / "anchors")
    verdict = verify_store(store, load_keyring(folder / "keys"), anchors)
    seconds = time.perf_counter() - began
    assert not verdict.findings, verdict.findings
    # Not ru_maxrss, because it includes the parent process that this process was forked from.
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps({"seconds": seconds, "peak_mb": peak / 1024, "entries": verdict.entries, "heads": verdict.heads}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000, help="size of the large ledger (default: a million)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of the comparison with a bare commit")
    parser.add_argument("--each", type=int, default=200, help=f"entries for each of the {CALLERS} callers")
    parser.add_argument("--folder", type=Path, default=Path(".cache"), help="where to work: the disk to be measured")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--child", nargs=3, metavar=("WORK", "FOLDER", "EACH"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_child(given.child[0], Path(given.child[1]), int(given.child[2]))
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=given.folder) as made:
        folder = Path(made).resolve()
        figures = measure_single(folder / "one", given.rounds, block=100)
        figures += measure_many(folder / "many", given.each)
        figures += measure_large(folder / "large", given.entries)
    if given.json:
        print(json.dumps([vars(figure) for figure in figures], indent=2))
    else:
        print(render(figures))
    return 1 if any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
