"""Runs the worked examples one after the other, in one process without a network. See test_examples."""

import contextlib
import io
import json
import runpy
import sys
from pathlib import Path
from typing import Any

LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def stay_here(event: str, given: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(given[1], tuple) and given[1][0] not in LOOPBACK:
        raise PermissionError(f"an example went to {given[1][0]}")
    if event == "socket.getaddrinfo" and given[0] not in LOOPBACK:
        raise PermissionError(f"an example looked for {given[0]}")


def main(folder: Path) -> None:
    sys.addaudithook(stay_here)
    sys.path.insert(0, str(folder))
    printed = {}
    for example in sorted([*folder.glob("*_agent.py"), *folder.glob("*_loop.py")]):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            runpy.run_path(str(example), run_name="__main__")
        printed[example.name] = output.getvalue().splitlines()
    sys.stdout.write(json.dumps(printed))


main(Path(sys.argv[1]))
