"""Measures goals: dispatch latency alone and with 16 callers, and the time that gates and ledger add to an action.

A goal is requested in words, found in the catalogue, confirmed, allowed and dispatched. Its action copies a file in the
sandbox. The bare action is the same copy as a leased task. The exit code is 1 if a target is missed. `bench/README.md`
has the results.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from figures import Figure, print_step, progress, render, take_turns
from remit.core.ids import uuid7
from remit.goals.finder.finder import EmbeddedFinder, Utterance
from remit.goals.gates import build_access_question
from remit.goals.history import load_decision, read_history
from remit.goals.replay import load_evidence
from remit.goals.rules import PastRules
from remit.goals.slo import MOST, percentile
from remit.ledger.documents import DocumentStore
from remit.testing.goal_load import run_load
from remit.testing.goal_workspace import SOURCE, TENANT, USER, GoalWorkspace, complete_goal, make_scratch
from remit.workspace.workspace import Workspace

MANY: Final = 16
GOAL_ALONE_MS: Final = 100.0
GOAL_AMONG_MANY_MS: Final = 500.0


def time_call(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1_000


class Measurements:
    """The same copy as a goal and as a leased task, a goal that only reads, and two parts of a goal on their own."""

    def __init__(self, scratch: GoalWorkspace, workspace: Workspace) -> None:
        self._scratch = scratch
        self._workspace = workspace
        self._numbers = itertools.count()
        self._finder = EmbeddedFinder()
        correlation_id = uuid7(workspace.clock())
        complete_goal(workspace.goals, correlation_id, "asked")
        with workspace.store.reading() as connection:
            self._rules = workspace.goals.rules(TENANT, connection)
            history = read_history(connection, lambda: workspace.keyring, TENANT, correlation_id)
            record = load_decision(connection, TENANT, history.decision_ref or "")
            evidence = load_evidence(DocumentStore(connection, TENANT), PastRules(), TENANT, record)
        entry = self._rules.catalogue.find("copy-form")
        assert entry is not None
        self._question = build_access_question(evidence, entry.simulation, getattr(evidence.packet, "fields", {}))

    def goal(self) -> float:
        name = f"goal-{next(self._numbers)}"
        return time_call(lambda: self._succeeded(complete_goal(self._workspace.goals, name, name).reason_code))

    def task(self) -> float:
        paths = {
            "source_path": f"{self._scratch.base}/{SOURCE}",
            "destination_path": f"{self._scratch.base}/task-{next(self._numbers)}.txt",
        }
        task = {"task_id": uuid7(self._workspace.clock()), "capability_id": "FILE_COPY", "inputs": paths}
        manifest = json.dumps({**task, "constraints": {"reversible": True}}).encode()

        def work() -> None:
            lease = self._workspace.issue_lease(manifest).canonical()
            self._succeeded(self._workspace.execute_task(manifest, lease).status)

        return time_call(work)

    def ping(self) -> float:
        ask = self._workspace.goals.ask
        return time_call(lambda: self._succeeded(ask("are you there", user=USER, tenant=TENANT).outcome.reason_code))

    def find(self) -> float:
        utterance = Utterance("c", TENANT, USER, "c", "en", f"copy the form as find-{next(self._numbers)}", None)
        return time_call(lambda: self._finder.find_with_proof(utterance, self._rules.catalogue))

    def access(self) -> float:
        # Different each time, because the answer to the same question is cached.
        question = replace(self._question, fields={"name": f"access-{next(self._numbers)}"})
        return time_call(lambda: self._rules.policy.decide(question))

    @staticmethod
    def _succeeded(status: str) -> None:
        if status not in {"SUCCESS", "SIMULATION_SUCCEEDED"}:
            raise SystemExit(f"it did not succeed: {status}")


def measure_in_turns(folder: Path, rounds: int) -> list[Figure]:
    scratch = make_scratch(folder)
    with scratch.open() as workspace:
        measurements = Measurements(scratch, workspace)
        taken = take_turns(
            {
                "bare task": measurements.task,
                "goal": measurements.goal,
                "read-only goal": measurements.ping,
                "finding alone": measurements.find,
                "access decision alone": measurements.access,
            },
            rounds,
            "a goal and its parts",
        )
    half = {name: statistics.median(times) for name, times in taken.items()}
    return [
        *(Figure(f"{name}, p50", value, "ms") for name, value in half.items()),
        Figure("what gates and ledger add to the bare task, p50", half["goal"] - half["bare task"], "ms"),
        Figure("goal / bare task", half["goal"] / half["bare task"], "times"),
    ]


def measure_under_load(folder: Path, goals: int, callers: int, goal_most: float) -> list[Figure]:
    scratch = make_scratch(folder)
    with progress(f"goals of {callers} at once", goals) as report:
        load = run_load(scratch, goals=goals, callers=callers, on_progress=lambda done, _: report(done))
    who = "1 caller" if callers == 1 else f"{callers} callers"
    at_most = {95: MOST["agent_dispatch_p95_ms"], 99: MOST["agent_dispatch_p99_ms"]}
    figures = []
    for percent in (50, 95, 99):
        found = percentile(load.dispatch_ms, percent) or 0.0
        figures.append(Figure(f"dispatch, {who}, p{percent}", found, "ms", most=at_most.get(percent)))
    for percent in (50, 99):
        found = percentile(load.goal_ms, percent) or 0.0
        figures.append(Figure(f"goal, {who}, p{percent}", found, "ms", most=goal_most if percent == 99 else None))
    return [
        *figures,
        Figure(f"goals, {who}", load.goals / load.seconds, "a second"),
        Figure(f"effects that happened twice, {who}", load.duplicates.count, "", most=0),
    ]


def measure(rounds: int, goals: int, place: Path) -> list[Figure]:
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as name:
        folder = Path(name)
        folders = [folder / each for each in ("turns", "alone", "many")]
        for each in folders:
            each.mkdir()
        print_step("making workspaces")
        return [
            *measure_in_turns(folders[0], rounds),
            *measure_under_load(folders[1], goals, 1, GOAL_ALONE_MS),
            *measure_under_load(folders[2], goals, MANY, GOAL_AMONG_MANY_MS),
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="how often each way takes its turn")
    parser.add_argument("--goals", type=int, default=400, help="goals of each load")
    parser.add_argument("--folder", type=Path, default=Path(".cache"), help="where to work: the disk to be measured")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    arguments = parser.parse_args()
    figures = measure(arguments.rounds, arguments.goals, arguments.folder)
    shown = [{"name": each.name, "value": each.value, "unit": each.unit, "most": each.most} for each in figures]
    sys.stdout.write((json.dumps(shown, indent=2) if arguments.json else render(figures)) + "\n")
    return 1 if any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
