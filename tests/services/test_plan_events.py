"""An agent hears what becomes of the plan that it proposed, from the answer to the end of its run; others' not."""

import asyncio
from pathlib import Path

import pytest

from remit.fs.change_signal import ChangeSignal
from remit.identity.callers import Caller
from remit.services.base.events import Events
from tests.plans.project import action, plan_of
from tests.services.plans.proposal_workspace import VIEWER, ProposalWorkspace


def test_an_agent_hears_of_its_own_plan_and_of_no_other(tmp_path: Path) -> None:
    office = ProposalWorkspace(tmp_path)
    workspace = office.workspace
    events = Events(
        lambda: workspace.store,
        ChangeSignal(workspace.state.change_signal_file),
        workspace.clock,
        workspace.position_key,
    )
    other = office.issue_token("other")

    async def kinds_heard(caller: Caller) -> set[str]:
        """From the beginning on, until the end of this listener's own plan."""
        heard: set[str] = set()
        async with await events.subscribe(caller, after="-") as listener:
            async for sent in listener:
                heard.add(sent.kind)
                assert caller is VIEWER or sent.event.correlation_id in of[caller.id]
                if sent.kind == "plan.outcome":
                    return heard
        raise AssertionError("it ended early")

    of = {}
    for caller in (office.agent, other):
        made, _ = office.make_applied(caller)
        of[caller.id] = {made.proposal_id, made.envelope_id}
    wanted = {"proposal.made", "proposal.approved", "envelope.issued", "plan.intent", "plan.outcome"}
    for caller in (office.agent, other):
        assert asyncio.run(asyncio.wait_for(kinds_heard(caller), 20)) == wanted, "what depends on files is for people"
    assert asyncio.run(asyncio.wait_for(kinds_heard(VIEWER), 20)) > wanted | {"plan.noted", "proposal.previewed"}
    events.close()
    office.close()


@pytest.mark.req("PV-04")
def test_an_agent_receives_only_plan_and_task_steps_that_do_not_depend_on_file_contents(tmp_path: Path) -> None:
    """The same plan, live: in one place it changes a file, in the other nothing is left to change."""
    heard = []
    for shade in ("0", "1"):
        (tmp_path / shade).mkdir()
        office = ProposalWorkspace(tmp_path / shade)
        heard.append(asyncio.run(asyncio.wait_for(_kinds_while_applied(office, shade), 60)))
        office.close()
    assert heard[0] == heard[1]


async def _kinds_while_applied(office: ProposalWorkspace, shade: str) -> list[str]:
    workspace = office.workspace
    events = Events(
        lambda: workspace.store,
        ChangeSignal(workspace.state.change_signal_file),
        workspace.clock,
        workspace.position_key,
    )
    try:
        async with await events.subscribe(office.agent) as listener:
            await asyncio.to_thread(_apply, office, shade)
            kinds = []
            async for sent in listener:
                kinds.append(sent.kind)
                if sent.kind == "plan.outcome":
                    return kinds
    finally:
        events.close()
    raise AssertionError("it ended early")


def _apply(office: ProposalWorkspace, shade: str) -> None:
    office.project.write("shades.json", f'{{"shade": "{shade}"}}\n')
    change = action("a", "FILE_MODIFY", "shades.json", {"type": "json_update_value", "path": "$.shade", "value": "0"})
    made = office.plans.propose(office.agent, plan_of(change))
    assert office.plans.finish_previews(60)
    office.approve(made.proposal_id)
    assert office.plans.apply(office.agent, made.proposal_id, wait=30).state == "APPLIED"
