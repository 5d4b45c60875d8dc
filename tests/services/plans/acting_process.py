"""Somebody at a desk of his own process, who may be killed at it.

acting.py ROOT {propose FILE KEY, agent FILE KEY TOKEN, compute ID, approve ID, deny ID, apply ID}
"""

import sys
from datetime import timedelta
from pathlib import Path

from remit.identity.callers import AgentCaller, PersonCaller
from remit.identity.person import Person
from remit.services.plans.preview_turns import TurnRules
from remit.services.plans.service import PlanService
from remit.workspace.workspace import Workspace
from tests.support.child_process import acknowledge

TURNS = TurnRules(timedelta(minutes=1), lambda: 1.0)
"""So long that a busy machine reaches each point in its turn."""

if __name__ == "__main__":
    root, what, *more = sys.argv[1:]
    who = PersonCaller(Person("os:ada"), "admin")
    with Workspace.open(root) as workspace:
        plans = PlanService(workspace, turns=TURNS)
        if what == "propose":
            view = plans.propose(who, Path(more[0]).read_bytes(), key=more[1])
        elif what == "agent":
            view = plans.propose(AgentCaller.by(workspace.tokens, more[2]), Path(more[0]).read_bytes(), key=more[1])
            plans.finish_previews(60)
        elif what == "compute":
            plans.compute_preview(who, more[0])
            view = plans.get(who, more[0])
        elif what == "apply":
            view = plans.apply(who, more[0], wait=30)
        elif what == "deny":
            view = plans.decide(who, more[0], approved=False)
        else:
            shown = plans.read_preview(who, more[0])
            view = plans.decide(who, more[0], approved=True, preview_digest=shown.preview_digest)
        acknowledge(view.state)
