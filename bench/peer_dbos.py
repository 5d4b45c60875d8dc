"""The peer of `task.py`: a one-step DBOS workflow on SQLite that renames a file and makes the rename durable.

It reads one JSON request a line on standard input, and answers each with one line. It has a separate environment.
"""

import json
import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig

folder = Path(sys.argv[1])
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the output of the library must not mix with the answers
config: DBOSConfig = {
    "name": "bench",
    "system_database_url": f"sqlite:///{folder}/system.sqlite",
    "run_admin_server": False,
    "log_level": "ERROR",
}
DBOS(config=config)


@DBOS.step()  # type: ignore[untyped-decorator] # the peer is not installed where types are checked
def rename(source: str, destination: str) -> str:
    os.rename(source, destination)
    for path in (destination, source):
        parent = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(parent)
        os.close(parent)
    return destination


@DBOS.workflow()  # type: ignore[untyped-decorator] # as above
def move(source: str, destination: str) -> None:
    rename(source, destination)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    waiting: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    for pair in request["pairs"]:
        waiting.put(pair)
    taken: list[float] = []

    def call() -> None:
        while True:
            try:
                pair = waiting.get_nowait()
            except queue.Empty:
                return
            began = time.perf_counter()
            move(*pair)
            taken.append((time.perf_counter() - began) * 1e3)

    callers = [threading.Thread(target=call) for _ in range(request["callers"])]
    began = time.perf_counter()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    if len(taken) != len(request["pairs"]):
        raise RuntimeError("a workflow failed")
    return {"milliseconds": taken, "rate": len(taken) / (time.perf_counter() - began)}


DBOS.launch()
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
DBOS.destroy()
