"""kill -9 of a process with a desk: whoever comes to the next one finds his work settled, and his own."""

from pathlib import Path

import pytest

from remit.core.errors import RefusedError
from remit.core.ids import system_clock
from remit.services.services import Services
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace
from tests.goals.goal_office import Office
from tests.services.conftest import agent, person
from tests.support import preloaded
from tests.support.child_process import Fault, run_child

CHILD = """
import sys
from datetime import timedelta
from remit.services.services import Services
from tests.support.child_process import acknowledge
from remit.workspace.workspace import Workspace
from tests.services.conftest import agent, person
from tests.goals.goal_office import Office
from tests.support.task_workspace import manifest
with Workspace.open(sys.argv[1]) as workspace, Services(workspace) as desk:
    lease = desk.tasks.lease(person(), manifest(), timedelta(minutes=5)).canonical()
    acknowledge(desk.tasks.run(agent(workspace, "task.run"), manifest(), lease, 30.0).state)
"""


@pytest.mark.parametrize(
    "point",
    [
        "road.effect_done",
        *(pytest.param(f"road.{each}", marks=pytest.mark.long) for each in ("intent_recorded", "outcome_recorded")),
    ],
)
def test_a_task_of_a_dead_process_is_recovered_when_its_agent_looks(tmp_path: Path, point: str) -> None:
    project, environ = tmp_path / "project", {"REMIT_STATE": str(tmp_path / "state")}
    project.mkdir()
    initialise(project, environ, system_clock)[0].close()
    ended = run_child([preloaded.python(), "-c", CHILD, str(project)], fault=Fault(point), environment=environ)
    assert ended.killed, ended
    assert not ended.acknowledged
    with Workspace.open(project, environ=environ) as workspace, Services(workspace) as services:
        bot, other = agent(workspace, "task.run"), agent(workspace, "task.run", sub="other")
        answer = services.tasks.get(bot, "task-1", wait=30.0)
        assert answer.state == "done"
        assert answer.result is not None
        assert answer.result.status == "SUCCESS"
        with pytest.raises(RefusedError):
            services.tasks.get(other, "task-1")
        verdict = services.ledger.verify(person("viewer"), wait=30.0).verdict
        assert verdict is not None
        assert verdict.holds, verdict.findings


ASKING = """
import sys
from remit.services.services import Services
from tests.support.child_process import acknowledge
from remit.workspace.workspace import Workspace
from tests.services.conftest import agent
with Workspace.open(sys.argv[1]) as workspace, Services(workspace) as desk:
    bot = agent(workspace, "goal.ask", user="mia")
    acknowledge(desk.goals.ask(bot, "are you there", correlation_id="g-1", wait=30.0).state)
"""


@pytest.mark.long
def test_a_goal_of_a_dead_process_is_recovered_when_its_agent_looks(tmp_path: Path) -> None:
    office = Office(tmp_path)
    ended = run_child(
        [preloaded.python(), "-c", ASKING, str(office.root)],
        fault=Fault("road.effect_done"),
        environment=office.environ,
    )
    assert ended.killed, ended
    with Services(office.workspace) as services:
        bot, other = (agent(office.workspace, "goal.ask", sub=sub, user="mia") for sub in ("bot", "other"))
        answer = services.goals.get(bot, "acme", "g-1", wait=30.0)
        assert (answer.state, answer.event) in {("done", "SUCCEEDED"), ("failed", "FAILED")}, answer
        with pytest.raises(RefusedError):
            services.goals.get(other, "acme", "g-1")
    office.close()
