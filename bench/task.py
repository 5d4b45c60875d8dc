"""Measures a governed file task: against a bare rename, a cold sandbox, a cold interpreter, and a durable workflow.

Every figure of one run comes from one machine at one time. The ways take turns, and the claims are ratios of medians.
The exit code is 1 if a target is missed. `bench/README.md` explains the measurements and has the results.
"""

import argparse
import json
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from figures import Figure, progress, render
from remit.core.ids import system_clock
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

CALLERS: Final = 16
BWRAP: Final = ("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "/bin/true")
PEERS: Final = Path(".cache/peers/bin/python")


class Files:
    """Small files to move from one folder to another. Each has a different name."""

    def __init__(self, folder: Path) -> None:
        self.source, self.destination = folder / "from", folder / "to"
        for place in (self.source, self.destination):
            place.mkdir(parents=True)
        self._made = 0

    def make(self, count: int) -> list[tuple[str, str]]:
        pairs = []
        for _ in range(count):
            self._made += 1
            name = f"{self._made:08d}"
            (self.source / name).write_bytes(b"x" * 4096)
            pairs.append((str(self.source / name), str(self.destination / name)))
        os.sync()
        return pairs


# --- the ways --------------------------------------------------------------------------------------------------------


def rename_durably(source: str, destination: str) -> None:
    os.rename(source, destination)
    for path in (destination, source):
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(folder)
        os.close(folder)


def spawn(command: tuple[str, ...]) -> None:
    # Not `subprocess`, because its own work would be measured as the sandbox's.
    child = os.posix_spawnp(command[0], list(command), os.environ)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeError(f"{command[0]} ended with {os.waitstatus_to_exitcode(status)}")


class Governed:
    """FILE_MOVE through the whole engine. Leases are issued before, because that is the kernel's work."""

    def __init__(self, folder: Path) -> None:
        self.files = Files(folder / "base")
        project = folder / "project"
        project.mkdir()
        environ = {**os.environ, "REMIT_STATE": str(folder / "state")}
        made, _ = initialise(project, environ, system_clock)
        made.close()
        (project / "remit.yaml").write_text(f"version: 1\nbase_directories: [{json.dumps(str(folder / 'base'))}]\n")
        self.workspace = Workspace.open(project, environ=environ)
        self._count = 0

    def prepare(self, count: int) -> list[tuple[bytes, bytes]]:
        tasks = []
        for source, destination in self.files.make(count):
            self._count += 1
            manifest = {
                "task_id": f"bench-{self._count}",
                "capability_id": "FILE_MOVE",
                "inputs": {"source_path": source, "destination_path": destination},
                "constraints": {"reversible": True},
            }
            raw = json.dumps(manifest).encode()
            tasks.append((raw, self.workspace.issue_lease(raw).canonical()))
        return tasks

    def run(self, manifest: bytes, lease: bytes) -> None:
        result = self.workspace.execute_task(manifest, lease)
        if result.status != "SUCCESS":
            raise RuntimeError(f"the task failed: {result.error}")

    def close(self) -> None:
        self.workspace.close()


class Workflow:
    """The same rename as the one step of a durable workflow, in a separate process (`peer_dbos.py`)."""

    def __init__(self, folder: Path) -> None:
        self.files = Files(folder)
        program = Path(__file__).with_name("peer_dbos.py")
        self._process = subprocess.Popen(
            [PEERS, program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, callers: int, count: int) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"callers": callers, "pairs": self.files.make(count)}), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


# --- measuring -------------------------------------------------------------------------------------------------------


def times_of(way: Callable[..., object], things: list[Any]) -> list[float]:
    taken = []
    for thing in things:
        began = time.perf_counter()
        way(*thing)
        taken.append((time.perf_counter() - began) * 1e3)
    return taken


def rate_of(way: Callable[..., object], things: list[Any], callers: int) -> tuple[float, list[float]]:
    """Calls a second with many callers, and each call's time."""
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for thing in things:
        waiting.put(thing)
    taken: list[float] = []
    failed: list[BaseException] = []

    def call() -> None:
        while True:
            try:
                thing = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                taken.extend(times_of(way, [thing]))
            except BaseException as problem:  # noqa: BLE001 - reported to the caller below
                failed.append(problem)
                return

    threads = [threading.Thread(target=call) for _ in range(callers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return len(things) / (time.perf_counter() - began), taken


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def measure(folder: Path, rounds: int, each: int) -> list[Figure]:
    bare = Files(folder / "bare")
    ways: dict[str, list[float]] = {"raw": [], "bwrap": [], "cold": [], "task": [], "dbos": [], "task many": []}
    rates: dict[str, list[float]] = {"task": [], "dbos": []}
    with ExitStack() as stack:
        governed = Governed(folder / "task")
        stack.callback(governed.close)
        dbos = stack.enter_context(Workflow(folder / "dbos"))
        with progress("rounds", rounds) as report:
            for number in range(rounds + 1):
                measured = {
                    "raw": times_of(rename_durably, bare.make(each)),
                    "bwrap": times_of(spawn, [(BWRAP,)] * each),
                    "cold": times_of(spawn, [((sys.executable, "-c", "pass"),)] * (each // 4)),
                    "task": times_of(governed.run, governed.prepare(each)),
                    "dbos": dbos.ask(1, each)["milliseconds"],
                }
                rate, taken = rate_of(governed.run, governed.prepare(each * 8), CALLERS)
                measured["task many"] = taken
                flow = dbos.ask(CALLERS, each * 2)["rate"]
                report(number)
                if number == 0:  # warms caches, starts the sandbox
                    continue
                for name, values in measured.items():
                    ways[name] += values
                rates["task"].append(rate)
                rates["dbos"].append(flow)
    middle = {name: statistics.median(values) for name, values in ways.items()}
    task_rate, dbos_rate = statistics.median(rates["task"]), statistics.median(rates["dbos"])
    return [
        Figure("bare rename + fsync of both folders, p50", middle["raw"], "ms"),
        Figure("bwrap starting /bin/true, p50", middle["bwrap"], "ms"),
        Figure("cold python3 -c pass, p50", middle["cold"], "ms"),
        Figure("DBOS: one-step workflow on SQLite, p50", middle["dbos"], "ms"),
        Figure("governed FILE_MOVE, p50", middle["task"], "ms"),
        Figure("governed FILE_MOVE, p99", quantile(ways["task"], 0.99), "ms"),
        Figure(f"governed FILE_MOVE, {CALLERS} callers, p50", middle["task many"], "ms"),
        Figure(f"governed FILE_MOVE, {CALLERS} callers, p99", quantile(ways["task many"], 0.99), "ms"),
        Figure(f"DBOS, {CALLERS} callers", dbos_rate, "tasks/s"),
        Figure(f"governed FILE_MOVE, {CALLERS} callers", task_rate, "tasks/s"),
        Figure("governed task / bwrap (goal 1.0)", middle["task"] / middle["bwrap"], "x", most=1.2),
        Figure("governed task / DBOS step", middle["task"] / middle["dbos"], "x", most=0.5),
        Figure(f"throughput against DBOS, {CALLERS} callers", task_rate / dbos_rate, "x", least=4),
    ]


def measure_memory(folder: Path, tasks: int) -> list[Figure]:
    """The host's memory after a tenth of the tasks, and after all."""
    governed = Governed(folder)
    seen = []
    with progress("tasks for the memory figure", tasks) as report:
        done = 0
        while done < tasks:
            batch = min(500, tasks - done)
            rate_of(governed.run, governed.prepare(batch), CALLERS)
            done += batch
            seen.append(resident())
            report(done)
    governed.close()
    first, last = seen[max(len(seen) // 10 - 1, 0)], seen[-1]
    return [
        Figure(f"memory of the host after {tasks // 10:,} tasks", first, "MB"),
        Figure(f"memory of the host after {tasks:,} tasks", last, "MB"),
        Figure("growth of the host's memory", last / first, "x", most=1.1),
    ]


def resident() -> float:
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12, help="how often the ways take turns")
    parser.add_argument("--each", type=int, default=40, help="calls of each kind in a round")
    parser.add_argument("--tasks", type=int, default=20_000, help="tasks for the memory figure; 0 for none")
    parser.add_argument("--folder", type=Path, default=Path(".cache"), help="where to work: the disk to be measured")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    for what, found in (("bwrap", shutil.which("bwrap")), ("the peers", PEERS.exists())):
        if not found:
            sys.exit(f"bench: {what} missing; `make bench` sets it up")
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=given.folder) as made:
        folder = Path(made).resolve()
        figures = measure(folder, given.rounds, given.each)
        if given.tasks:
            figures += measure_memory(folder / "memory", given.tasks)
    print(json.dumps([vars(figure) for figure in figures], indent=2) if given.json else render(figures))
    return 1 if any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
