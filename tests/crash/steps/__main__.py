"""Goals with several steps and crashes: a worker process is killed every few seconds, and any other goes on.

    python -m tests.crash.steps [--goals 1000] [--workers 4] [--store sqlite|postgresql] [--pause 1 5] [--seed N]

Afterwards no effect has happened twice, no goal is lost, and the files and databases are as the ledger says. Prints
figures as JSON. Exit code 1 if anything was found that should not be. For PostgreSQL it needs its server programs, or
an address in REMIT_TEST_POSTGRES_URL.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from remit.core.ids import uuid7
from tests.crash.goals.__main__ import SHOWN, database_address, telling_progress
from tests.crash.steps.checking import check_steps
from tests.crash.steps.driver import Pace, drive_steps
from tests.crash.steps.office import LANES, make_office
from tests.crash.steps.scripts import write_scripts
from tests.crash.steps.turns import taking_turns

PAUSE: Final = (1.0, 5.0)


def main() -> int:
    parser = argparse.ArgumentParser(description="Goals with several steps and crashes.")
    parser.add_argument("--goals", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--lanes", type=int, default=len(LANES), help="how many databases the rows are in")
    parser.add_argument("--pause", type=float, nargs=2, default=PAUSE, help="the seconds between two kills")
    parser.add_argument("--kills", type=int, default=1_000_000, help="the most kills")
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with database_address(given.store) as url, tempfile.TemporaryDirectory(prefix="remit-crash-steps-") as folder:
        office = make_office(Path(folder).resolve(), goals=given.goals, lanes=given.lanes, url=url or None)
        correlations = [uuid7(office.scratch.clock()) for _ in range(given.goals)]
        scripts = {each.correlation_id: each for each in write_scripts(office, correlations)}
        for script in scripts.values():
            script.prepare(office)
        work = taking_turns(office, scripts)
        seen = drive_steps(
            office,
            scripts,
            work,
            workers=given.workers,
            pace=Pace(given.pause[0], given.pause[1], given.kills),
            seed=given.seed,
            on_progress=telling_progress(),
        )
        began = time.monotonic()
        checked = check_steps(office, scripts, seen.left)
    problems = [*seen.driven.problems, *checked.problems]
    figures = {
        "store": given.store,
        "goals": given.goals,
        "steps": sum(len(office.order[script.composite]) for script in scripts.values()),
        "workers": given.workers,
        "turns": seen.turns,
        "killed": seen.driven.killed,
        "killed_at_work": seen.driven.killed_at_work,
        "left_to_recovery": len(seen.left),
        "tried_again": dict(seen.driven.tried_again.most_common(12)),
        "killed_between_dispatch_and_action": checked.cut_short,
        "endings": dict(checked.endings.most_common()),
        "attempts_after_a_failure": checked.retried,
        "steps_rolled_back": checked.rolled_back,
        "recovered_at_the_end": checked.recovered,
        "duplicate_side_effects": checked.duplicates,
        "lost_goals": checked.lost,
        "ledger_entries": checked.entries,
        "decisions_replayed": checked.decisions,
        "problems": len(problems),
        "first_problems": problems[:SHOWN],
        "seconds": round(seen.driven.seconds, 1),
        "seconds_of_checking": round(time.monotonic() - began, 1),
    }
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
