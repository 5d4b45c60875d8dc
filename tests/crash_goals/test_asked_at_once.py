"""Two that ask for the same goal at the same moment: both hear what came of it, and it happens once."""

from pathlib import Path
from typing import Any

import pytest

from remit.agent.core import AgentCore
from remit.testing.goal_evidence import find_problems, read_evidence
from remit.testing.goal_scratch import TENANT, USER, carry_through, make_scratch


@pytest.mark.req("AC-08", "AC-22")
def test_whoever_asks_while_another_confirms_hears_the_outcome_not_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is quicker exactly between the decision to ask back and the telling of it."""
    scratch = make_scratch(tmp_path)
    real: Any = AgentCore._told  # noqa: SLF001 - the moment in question
    others: list[str] = []

    with scratch.open() as here, scratch.open() as there:

        def told(self: AgentCore, goal: Any, simulated: Any = None) -> Any:
            if self is here.goals.core and not others:
                others.append(carry_through(there.goals, "c-1", "n-1").reason_code)
            return real(self, goal, simulated)

        monkeypatch.setattr(AgentCore, "_told", told)
        said = here.goals.ask("copy the form as n-1", user=USER, tenant=TENANT, correlation_id="c-1").outcome
        evidence = read_evidence(here, scratch)
    assert others == ["SIMULATION_SUCCEEDED"]
    assert said.reason_code == "SIMULATION_SUCCEEDED"
    assert said.simulation_outcome is not None
    assert find_problems(evidence, {"c-1": "n-1"}) == []
