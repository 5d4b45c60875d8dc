"""Two that ask for the same goal at the same moment: both hear what came of it, and it happens once."""

from pathlib import Path
from typing import Any

import pytest

from remit.goals import core
from remit.goals.outcomes import build_outcome
from remit.testing.goal_evidence import find_problems, read_evidence
from remit.testing.goal_workspace import TENANT, USER, complete_goal, make_scratch


@pytest.mark.req("AC-08", "AC-22")
def test_a_caller_who_confirms_after_another_caller_did_receives_the_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is quicker exactly between the decision to ask back and the telling of it: what is told is the
    question that was recorded, and the answer to it brings what came of the other's.
    """
    scratch = make_scratch(tmp_path)
    others: list[str] = []

    with scratch.open() as here, scratch.open() as there:

        def told(*given: Any) -> Any:
            if not others:
                others.append("asks")
                others.append(complete_goal(there.goals, "c-1", "n-1").reason_code)
            return build_outcome(*given)

        monkeypatch.setattr(core, "build_outcome", told)
        said = here.goals.ask("copy the form as n-1", user=USER, tenant=TENANT, correlation_id="c-1").outcome
        assert said.reason_code == "CONFIRMATION_REQUIRED"
        assert others == ["asks", "SIMULATION_SUCCEEDED"]
        then = here.goals.answer("c-1", "yes", user=USER, tenant=TENANT).outcome
        evidence = read_evidence(here, scratch)
    assert then.reason_code == "SIMULATION_SUCCEEDED"
    assert then.simulation_outcome is not None
    assert find_problems(evidence, {"c-1": "n-1"}) == []
