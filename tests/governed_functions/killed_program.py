"""A program that was killed during a call, and its file."""

import json
from pathlib import Path

from remit.contracts.calls.call import CallAnswer
from remit.workspace.workspace import Workspace
from tests.governed_functions.customer_workspace import Place
from tests.governed_functions.register import declare
from tests.support import preloaded
from tests.support.child_process import ChildExit, Fault, run_child

CHILD = """
import sys
from remit.workspace.workspace import Workspace
from tests.support.child_process import acknowledge
from tests.governed_functions.register import declare

with Workspace.open(sys.argv[1]) as workspace:
    functions = declare(workspace, sys.argv[2])
    answer = functions[sys.argv[3]].call(token=sys.argv[4], key=sys.argv[5], value=2)
    acknowledge(answer.state)
"""


class Killed:
    """A program that was killed, and its file."""

    def __init__(self, place: Place, folder: Path, kind: str, point: str) -> None:
        self.place, self.kind, self.key = place, kind, f"{kind} {point} {folder.name}"
        self.file = folder / f"{kind}-{point}.json"
        self.file.write_text("[1]")
        self.token = place.token(f"kill.{kind}")
        words = [str(place.workspace.root), str(self.file), kind, self.token, self.key]
        environment = dict(place.workspace.environ)
        self.ended: ChildExit = run_child(
            [preloaded.python(), "-c", CHILD, *words], fault=Fault(point), environment=environment
        )

    def written(self) -> list[int]:
        """Return every value that was ever set, including the first."""
        values: list[int] = json.loads(self.file.read_text())
        return values


def again(one: Killed) -> CallAnswer:
    """Start the program again and make the same call again."""
    place = one.place.workspace
    with Workspace.open(place.root, environ=place.environ) as workspace:
        functions = declare(workspace, str(one.file))
        answer: CallAnswer = functions[one.kind].call(token=one.token, key=one.key, value=2)
        return answer
