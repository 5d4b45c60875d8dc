"""Goals with crashes: worker processes are killed at random moments, goals are given twice and tried again.

    python -m tests.crash.goals [--goals 10000] [--workers 4] [--store sqlite|postgresql] [--kills N] [--seed N]

Afterwards each goal has one dispatch, at most one attempt and one effect, and every record agrees. Prints figures as
JSON. Exit code 1 if anything was found that should not be. Needs the machine for itself, and for PostgreSQL its server
programs, or an address in REMIT_TEST_POSTGRES_URL.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from remit.testing.goal_workspace import make_scratch
from tests.crash.goals.checking import check_all
from tests.crash.goals.driver import drive

VARIABLE: Final = "REMIT_CRASH_GOALS_URL"
SHOWN: Final = 20


def main() -> int:
    parser = argparse.ArgumentParser(description="Goals with crashes.")
    parser.add_argument("--goals", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kills", type=int, help="how many workers are killed (default: one for 40 goals)")
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    kills = given.goals // 40 if given.kills is None else given.kills
    with database_address(given.store) as url, tempfile.TemporaryDirectory(prefix="remit-crash-goals-") as folder:
        environ = {**os.environ, **({VARIABLE: url} if url else {})}
        scratch = make_scratch(Path(folder), url_variable=VARIABLE if url else None, environ=environ)
        seen = drive(
            scratch,
            goals=given.goals,
            workers=given.workers,
            kills=kills,
            seed=given.seed,
            on_progress=telling_progress(),
        )
        began = time.monotonic()
        checked = check_all(scratch, seen.wanted)
    problems = [*seen.problems, *checked.problems]
    figures = {
        "store": given.store,
        "goals": given.goals,
        "asked": seen.asked,
        "workers": given.workers,
        "killed": seen.killed,
        "killed_at_work": seen.killed_at_work,
        "tried_again": dict(seen.tried_again.most_common()),
        "outcomes_told": dict(seen.codes.most_common()),
        "succeeded": checked.succeeded,
        "failed": checked.failed,
        "recovered_at_the_end": checked.recovered,
        "duplicate_side_effects": checked.duplicates,
        "ledger_entries": checked.entries,
        "decisions_replayed": checked.decisions,
        "problems": len(problems),
        "first_problems": problems[:SHOWN],
        "seconds": round(seen.seconds, 1),
        "goals_a_second": round(given.goals / seen.seconds, 1),
        "seconds_of_checking": round(time.monotonic() - began, 1),
    }
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return 1 if problems else 0


@contextlib.contextmanager
def database_address(store: str) -> Iterator[str]:
    """Of a database for this run; empty for SQLite."""
    if store == "sqlite":
        yield ""
        return
    # Not at the top: a run on SQLite needs no driver.
    from tests.support.postgres_databases import drop_free_databases, fresh_database  # noqa: PLC0415
    from tests.support.postgres_server import shared_server_url, stop_server  # noqa: PLC0415

    given = os.environ.get("REMIT_TEST_POSTGRES_URL")
    directory = Path(tempfile.mkdtemp(prefix="remit-pg-", dir="/tmp"))
    try:
        with fresh_database(given or shared_server_url(directory, os.getpid())) as url:
            yield url
        drop_free_databases()
    finally:
        stop_server(directory)


def telling_progress() -> Callable[[int, int], None]:
    last = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= 5:
            last = time.monotonic()
            sys.stderr.write(f"{done:,} of {total:,}\n")
            sys.stderr.flush()

    return tell


if __name__ == "__main__":
    sys.exit(main())
