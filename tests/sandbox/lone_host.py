"""A host in a process of its own, with a task that clings to life: for tests that end the host from outside."""

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.sandbox.hostile_sandbox import Arena, a_host, an_order


def main() -> None:
    """Prints the pids of the task's process and of its zygote, once the task has tried everything."""
    arena, how, confined = Arena(Path(sys.argv[1])), sys.argv[2], sys.argv[3] == "1"
    at_work = threading.Event()

    def tell(question: Mapping[str, Any]) -> Mapping[str, Any]:
        sys.stdout.write(f"{question['pid']} {question['parent']}\n")
        sys.stdout.flush()
        at_work.set()
        return {}

    with a_host(arena, confined=confined) as host:
        order = an_order(arena, "cling")
        if how == "exits":
            threading.Thread(target=lambda: host.run(order, on_ask=tell), daemon=True).start()
            at_work.wait()
            sys.stdin.read()
            # Without closing anything: as a program does that forgets to.
            os._exit(0)
        host.run(order, on_ask=tell)


if __name__ == "__main__":
    main()
