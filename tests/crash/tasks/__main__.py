"""The full run: first prove that the harness finds planted bugs, then stop every task at every point, in every way.

    python -m tests.crash.tasks [--workers N] [--only TEXT] [--thin N]

Needs root, for disks of its own, and the machine for itself. Exit code 1 if anything was found that should not be
there, or not found that should. `--thin N` takes every N-th of the points that the full run takes, and says how many
that were; planted bugs are looked for at all of their points.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tests.crash.tasks.jobs import FULL, HONEST, PLANTED, SABOTAGED, Job, Report, run_job

SHOWN = 10


def main(first: Sequence[Job] = (*HONEST, *PLANTED, *SABOTAGED), full: Sequence[Job] = FULL) -> None:
    """What proves the harness, and then `full`, of whose points a summary is made."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--only", default="", help="sweeps whose name holds this text")
    parser.add_argument("--thin", type=int, default=1, metavar="N", help="every N-th point only")
    given = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("this needs root: it mounts disks of its own")
    began = time.monotonic()
    thinned = [replace(job, step=job.step * given.thin) for job in full]
    jobs = [job for job in (*first, *thinned) if given.only in str(job)]
    with ThreadPoolExecutor(given.workers) as pool:
        reports = list(pool.map(_run, jobs))
    _summarise(jobs, reports, thinned, time.monotonic() - began)
    if given.thin > 1:
        sys.stdout.write(f"thinned: every {given.thin}th of the points of a full run\n")
    sys.exit(0 if jobs and all(_passed(job, report) for job, report in zip(jobs, reports, strict=True)) else 1)


def _run(job: Job) -> Report:
    try:
        report = run_job(job)
    except RuntimeError as problem:  # the others go on
        report = Report(0, {}, {}, [str(problem)], 0)
    verdict = "ok" if _passed(job, report) else "WRONG"
    found = f"{len(report.problems)} found" + (", as it should be" if job.finds and report.problems else "")
    lines = [f"{verdict:5} {job}: {report.points} points, {found}, {report.seconds:.0f} s"]
    if not job.finds:
        lines += [f"      {problem}" for problem in report.problems[:SHOWN]]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    return report


def _passed(job: Job, report: Report) -> bool:
    return report.points > 0 and bool(report.problems) == job.finds


def _summarise(jobs: Sequence[Job], reports: Sequence[Report], full: Sequence[Job], seconds: float) -> None:
    ways: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    places: Counter[str] = Counter()
    for job, report in zip(jobs, reports, strict=True):
        if job in full:
            ways[job.way] += report.points
            calls.update(report.calls)
            places.update(report.places)
    planted = sum(bool(report.problems) for job, report in zip(jobs, reports, strict=True) if job.finds)
    sys.stdout.write(
        f"\nplanted: {planted} of {sum(job.finds for job in jobs)} found\n"
        f"points by way: {_listed(ways)}\n"
        f"points by what was to change: {_listed(places)}\n"
        f"points by call: {_listed(calls)}\n"
        f"points in all: {ways.total()}, in {seconds:.0f} s\n"
    )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


if __name__ == "__main__":
    main()
