"""An admin in a process of his own, who may be killed at it: acting.py ROOT {remove NAME, end COOKIE}"""

import sys

from remit.workspace.workspace import Workspace
from tests.support.child_process import acknowledge

if __name__ == "__main__":
    root, what, whom = sys.argv[1:]
    with Workspace.open(root) as workspace:
        if what == "remove":
            workspace.people.remove(whom, actor="os:test")
        else:
            workspace.people.end(whom)
        acknowledge(what)
