"""An agent hears what becomes of the plan that it proposed, from the answer to the end of its run; others' not."""

import asyncio
from pathlib import Path

from remit.approval.bell import Bell
from remit.desk.callers import AgentCaller
from remit.desk.events import Events
from tests.desk_plans.office import Office


def test_an_agent_hears_of_its_own_plan_and_of_no_other(tmp_path: Path) -> None:
    office = Office(tmp_path)
    workspace = office.workspace
    events = Events(lambda: workspace.store, Bell(workspace.state.bell), workspace.clock)
    other = office.token("other")

    async def kinds_heard(caller: AgentCaller) -> set[str]:
        """From the beginning on, until the end of this listener's own plan."""
        heard: set[str] = set()
        async with await events.subscribe(caller, after="-") as listener:
            async for sent in listener:
                heard.add(sent.kind)
                assert sent.event.correlation_id in of[caller.id]
                if sent.kind == "plan.outcome":
                    return heard
        raise AssertionError("it ended early")

    of = {}
    for caller in (office.agent, other):
        made, _ = office.applied(caller)
        of[caller.id] = {made.proposal_id, made.envelope_id}
    wanted = {"proposal.made", "proposal.approved", "plan.intent", "plan.outcome"}
    for caller in (office.agent, other):
        assert asyncio.run(asyncio.wait_for(kinds_heard(caller), 20)) >= wanted
    events.close()
    office.close()
