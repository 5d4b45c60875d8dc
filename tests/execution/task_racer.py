"""One of two processes that run the same tasks at the same time. Started by test_one_effect.py.

    task_racer.py WORKSPACE

Reads a line with a manifest and a lease before each round, and prints the result.
"""

import json
import sys

from remit.workspace.workspace import Workspace


def main() -> None:
    with Workspace.open(sys.argv[1]) as workspace:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for line in sys.stdin:
            task = json.loads(line)
            result = workspace.execute_task(task["manifest"].encode(), task["lease"].encode())
            sys.stdout.write(result.canonical().decode() + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
