"""Measures the time that HTTP adds to a governed task: in process, a route that does nothing, and the task by HTTP.

The three take turns, on one machine at one time, and the claim is a difference of medians. The server is `remit serve`
in a separate process, with its guard, authority and limits. Each caller keeps its connection. The file is not called
`http.py`, because Python has a module of that name, and every program in this folder would import this file instead.
The exit code is 1 if a target is missed. `bench/README.md` explains the measurements and has the results.
"""

import argparse
import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from figures import Figure, progress, render
from served import Server, task_body
from task import CALLERS, Governed, quantile, rate_of, times_of

CAP = "task.run"


def measure(folder: Path, rounds: int, each: int) -> list[Figure]:
    ways: dict[str, list[float]] = {"task": [], "route": [], "http": [], "task many": [], "http many": []}
    rates: dict[str, list[float]] = {"task": [], "http": []}
    with ExitStack() as stack:
        here, there = Governed(folder / "here"), Governed(folder / "there")
        stack.callback(here.close)
        stack.callback(there.close)
        server = stack.enter_context(Server(there.workspace))
        # Each caller is a separate agent, because the concurrent work of one caller is limited.
        tokens = [server.agent(f"bench-{number}", CAP) for number in range(CALLERS)]

        def bodies(count: int) -> list[tuple[str, bytes]]:
            made = [task_body(*one) for one in there.prepare(count)]
            return [(tokens[number % CALLERS], body) for number, body in enumerate(made)]

        def request_nothing() -> None:
            status, _ = server.request("GET", "/healthz")
            assert status == 200

        with progress("rounds", rounds) as report:
            for number in range(rounds + 1):
                measured = {
                    "task": times_of(here.run, here.prepare(each)),
                    "route": times_of(request_nothing, [()] * each),
                    "http": times_of(server.run_task, bodies(each)),
                }
                rate, measured["task many"] = rate_of(here.run, here.prepare(each * 4), CALLERS)
                http_rate, measured["http many"] = rate_of(server.run_task, bodies(each * 4), CALLERS)
                report(number)
                if number == 0:  # warms caches, starts the sandboxes
                    continue
                for name, values in measured.items():
                    ways[name] += values
                rates["task"].append(rate)
                rates["http"].append(http_rate)
        memory = server.memory()
    middle = {name: statistics.median(values) for name, values in ways.items()}
    task_rate, http_rate = statistics.median(rates["task"]), statistics.median(rates["http"])
    return [
        Figure("governed FILE_MOVE in process, p50", middle["task"], "ms"),
        Figure("governed FILE_MOVE in process, p99", quantile(ways["task"], 0.99), "ms"),
        Figure("a route that does nothing, p50", middle["route"], "ms"),
        Figure("governed FILE_MOVE by HTTP, p50", middle["http"], "ms"),
        Figure("governed FILE_MOVE by HTTP, p99", quantile(ways["http"], 0.99), "ms"),
        Figure("what HTTP adds, p50", middle["http"] - middle["task"], "ms", most=5),
        Figure("by HTTP / in process", middle["http"] / middle["task"], "x"),
        Figure("what HTTP adds / a route that does nothing", (middle["http"] - middle["task"]) / middle["route"], "x"),
        Figure(f"in process, {CALLERS} callers, p50", middle["task many"], "ms"),
        Figure(f"by HTTP, {CALLERS} callers, p50", middle["http many"], "ms"),
        Figure(f"by HTTP, {CALLERS} callers, p99", quantile(ways["http many"], 0.99), "ms"),
        Figure(f"in process, {CALLERS} callers", task_rate, "tasks/s"),
        Figure(f"by HTTP, {CALLERS} callers", http_rate, "tasks/s"),
        Figure("memory of the server", memory, "MB"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="how often the ways take turns")
    parser.add_argument("--each", type=int, default=40, help="calls of each kind in a round")
    parser.add_argument("--folder", type=Path, default=Path(".cache"), help="where to work: the disk to be measured")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=given.folder) as made:
        figures = measure(Path(made).resolve(), given.rounds, given.each)
    print(json.dumps([vars(figure) for figure in figures], indent=2) if given.json else render(figures))
    return 1 if any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
