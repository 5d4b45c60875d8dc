"""Measures what 200 listeners to the event stream cost 16 callers, how late events come, and whether one is lost.

The server is `remit serve` in a separate process. The listeners are another process, so that their work is not part of
the callers' work. The callers run alone first, and then with all listeners. Every listener must receive every entry.
The exit code is 1 if a target is missed. `bench/README.md` explains the measurements and has the results.
"""

import argparse
import json
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from figures import Figure, print_step, render
from served import Server, task_body
from task import CALLERS, Governed, quantile, rate_of

CAP: Final = "task.run"
QUIET_SECONDS: Final = 15.0
"""Seconds after the last call within which each listener must have received every event."""
OF_ONE_PERSON: Final = 20
"""Listeners of each person, because one person may not use all places for listeners."""
TIMED: Final = 20
"""Listeners whose events are all read. For the others, the events are only counted."""
_TIME: Final = re.compile(rb'"at":"([^"]+)"')


# --- the listeners' process ------------------------------------------------------------------------------------------


@dataclass
class Listener:
    connection: socket.socket
    timed: bool
    rest: bytes = b""
    events: int = 0
    delays: list[float] = field(default_factory=list)
    is_open: bool = True

    def read(self) -> None:
        data = self.connection.recv(1 << 20)
        now = time.time()
        if not data:
            self.is_open = False
            return
        *whole, self.rest = (self.rest + data).split(b"\n\n")
        for event in whole:
            if b"id: " in event and b"\ndata: " in event:  # an event without a ledger entry has no id
                self.events += 1
                found = _TIME.search(event) if self.timed else None
                if found:
                    at = datetime.fromisoformat(found[1].decode())
                    self.delays.append((now - at.timestamp()) * 1e3)


def listen(address: str, cookies: list[str], count: int) -> None:
    """Print `ready` when all are connected. Then, for a number on the input, print the events when each has so many."""
    host, _, port = address.partition(":")
    selector = selectors.DefaultSelector()
    everybody = []
    for number in range(count):
        connection = socket.create_connection((host, int(port)), timeout=30)
        cookie = cookies[number % len(cookies)]
        head = f"GET /v1/events HTTP/1.1\r\nHost: {address}\r\nCookie: remit_session={cookie}\r\n\r\n"
        connection.sendall(head.encode())
        answer = connection.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        connection.setblocking(False)
        everybody.append(Listener(connection, number < TIMED, rest=answer.partition(b"\r\n\r\n")[2]))
        selector.register(connection, selectors.EVENT_READ, everybody[-1])
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("ready", flush=True)
    wanted, deadline = None, float("inf")
    while wanted is None or (min(one.events for one in everybody) < wanted and time.monotonic() < deadline):
        for key, _ in selector.select(0.5):
            if isinstance(key.data, Listener):
                key.data.read()
                if not key.data.is_open:
                    selector.unregister(key.fileobj)
            else:
                wanted, deadline = int(sys.stdin.readline()), time.monotonic() + QUIET_SECONDS
                selector.unregister(key.fileobj)
    told = {
        "events": [one.events for one in everybody],
        "delays": [delay for one in everybody for delay in one.delays],
        "closed": sum(not one.is_open for one in everybody),
    }
    print(json.dumps(told), flush=True)


class Listeners:
    """The listeners, seen from this process."""

    def __init__(self, server: Server, cookies: list[str], count: int) -> None:
        command = [sys.executable, __file__, "--listen", server.address, ",".join(cookies), str(count)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            sys.exit("bench: the listeners could not listen")

    def wait_for(self, wanted: int) -> Any:
        """The events that they received, when each of them has so many events, or when the time is over."""
        return json.loads(self._process.communicate(f"{wanted}\n")[0])


# --- measuring -------------------------------------------------------------------------------------------------------


def entries_of(governed: Governed) -> int:
    with governed.workspace.store.reading() as connection:
        row = connection.one("SELECT count(*) FROM ledger_entries")
        assert row is not None
        return int(row[0])


def measure(folder: Path, tasks: int, listeners: int) -> list[Figure]:
    with ExitStack() as stack:
        governed = Governed(folder)
        stack.callback(governed.close)
        server = stack.enter_context(Server(governed.workspace))
        tokens = [server.agent(f"bench-{number}", CAP) for number in range(CALLERS)]
        people = governed.workspace.people
        cookies = [
            people.redeem(people.invite(f"bench-{number}", "viewer", actor="os:bench").code).cookie
            for number in range(-(-listeners // OF_ONE_PERSON))
        ]

        def call(count: int) -> tuple[float, list[float]]:
            made = [task_body(*one) for one in governed.prepare(count)]
            return rate_of(server.run_task, [(tokens[at % CALLERS], body) for at, body in enumerate(made)], CALLERS)

        print_step("warming up")
        call(tasks // 4)
        print_step(f"{CALLERS} callers alone")
        rate_alone, alone = call(tasks)
        before = server.memory()
        print_step(f"{listeners} listeners, {CALLERS} callers")
        bodies = [task_body(*one) for one in governed.prepare(tasks)]
        crowd = Listeners(server, cookies, listeners)
        listening = server.memory()
        began = entries_of(governed)
        jobs = [(tokens[at % CALLERS], body) for at, body in enumerate(bodies)]
        rate, taken = rate_of(server.run_task, jobs, CALLERS)
        wanted = entries_of(governed) - began
        heard = crowd.wait_for(wanted)
        after = server.memory()
    lost = sum(max(wanted - count, 0) for count in heard["events"])
    return [
        Figure(f"{CALLERS} callers alone, p50", statistics.median(alone), "ms"),
        Figure(f"{CALLERS} callers alone, p99", quantile(alone, 0.99), "ms"),
        Figure(f"{CALLERS} callers alone", rate_alone, "tasks/s"),
        Figure(f"{CALLERS} callers, {listeners} listeners, p50", statistics.median(taken), "ms"),
        Figure(f"{CALLERS} callers, {listeners} listeners, p99", quantile(taken, 0.99), "ms"),
        Figure(f"{CALLERS} callers, {listeners} listeners", rate, "tasks/s"),
        Figure("events told", sum(heard["events"]), ""),
        Figure("events lost", lost, "", most=0),
        Figure("listeners that were let go", heard["closed"], "", most=0),
        Figure("from the record to a listener, p50", statistics.median(heard["delays"]), "ms", most=500),
        Figure("from the record to a listener, p99", quantile(heard["delays"], 0.99), "ms"),
        Figure("memory of the server, no listeners", before, "MB"),
        Figure(f"memory of the server, {listeners} listen", listening, "MB"),
        Figure("memory of the server at the end", after, "MB"),
        Figure("memory for each listener", (after - before) * 1_024 / listeners, "KB", most=256),
    ]


def main() -> int:
    if sys.argv[1:2] == ["--listen"]:
        listen(sys.argv[2], sys.argv[3].split(","), int(sys.argv[4]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=800, help="calls, with and without listeners")
    parser.add_argument("--listeners", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path(".cache"), help="where to work: the disk to be measured")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=given.folder) as made:
        figures = measure(Path(made).resolve(), given.tasks, given.listeners)
    print(json.dumps([vars(figure) for figure in figures], indent=2) if given.json else render(figures))
    return 1 if any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
