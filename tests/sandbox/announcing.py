"""Named points of a sandboxed process under a supervisor. A process of its own, which crash points need.

python -m tests.sandbox.announcing FOLDER
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from remit.core.faultpoints import reach
from tests.sandbox.stepping_host import place, stepping_host, steps
from tests.support.crash_injection import (
    PROCEED,
    Acknowledge,
    Action,
    Fail,
    InjectedRun,
    Kill,
    Point,
    Pretend,
    run_watched,
)


def a_run(root: Path) -> Callable[[Acknowledge], None]:
    """A host that passes a point itself, and a sandboxed process that passes three."""

    def work(acknowledge: Acknowledge) -> None:
        os.write(1, b"printed\n")
        reach("plan.folders_made")
        with stepping_host(root / "state") as host:
            asked = steps("pass_points", places={"target": place(root / "files", "target")})
            acknowledge(json.dumps(host.run(asked).output))

    return work


def run(root: Path, decide: Callable[[Point], Action] = lambda _: PROCEED, *, named: bool = True) -> dict[str, Any]:
    target = root / "files" / "target"
    target.unlink(missing_ok=True)
    ended: InjectedRun = run_watched(a_run(root), [str(root / "files")], lambda point, _: decide(point), named=named)
    return {
        "points": [[point.call, *(Path(path).name for path in point.paths)] for point in ended.points],
        "stopped": len(ended.stopped),
        "killed": ended.killed,
        "output": ended.output,
        "said": list(ended.acknowledged),
        "content": target.read_text() if target.exists() else None,
    }


def at(number: int, action: Action) -> Callable[[Point], Action]:
    return lambda point: action if point.number == number else PROCEED


def main(root: Path) -> None:
    (root / "files").mkdir()
    told = {
        "whole": run(root),
        "unnamed": run(root, named=False),
        "killed": [run(root, at(number, Kill())) for number in range(1, 7)],
        "failed": run(root, lambda point: Fail(5) if point.call == "reach" else PROCEED),
        "pretended": run(root, lambda point: Pretend() if point.call == "reach" else PROCEED),
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
