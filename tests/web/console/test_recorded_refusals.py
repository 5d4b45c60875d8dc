"""A form of the console about a plan that is refused is in the ledger with the person, also if the page refuses it."""

from urllib.parse import urlencode

import pytest

from tests.support.refusal_entries import new_refusals
from tests.web.console.console_workspace import Stage, created

NO_DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.req("PX-44")
def test_a_refused_form_is_recorded_once_with_the_person(stage: Stage, subtests: pytest.Subtests) -> None:
    proposal = stage.propose("recorded", created("a", "docs/long.md", "line\n" * 5_000))
    asked = [
        ("approver", "/inbox/answer", {"kind": "plan", "decision": "approve", "digest": NO_DIGEST}, "approve"),
        ("viewer", "/inbox/answer", {"kind": "plan", "decision": "approve", "digest": NO_DIGEST}, "approve"),
        ("viewer", "/inbox/answer", {"kind": "plan", "decision": "deny"}, "deny"),
        ("viewer", "/inbox/compute", {}, "compute"),
        ("viewer", "/inbox/withdraw", {}, "cancel"),
        ("viewer", "/runs/apply", {}, "apply"),
        ("viewer", "/runs/undo", {}, "rollback"),
    ]
    for number, (role, path, fields, operation) in enumerate(asked):
        cookie, csrf = stage.cookie(f"form{number}", role)
        more = {"csrf": csrf, "confirmed": "yes", "id": proposal.proposal_id, "name": proposal.proposal_id}
        with subtests.test(path, operation=operation):
            with new_refusals(stage.workspace) as found:
                answer = stage.ask("POST", path, urlencode({**more, **fields}), Cookie=cookie)
            assert 400 <= answer.status < 500, answer.text
            assert [(each.kind, each.actor, each.payload["operation"]) for each in found] == [
                ("request.refused", f"link:form{number}", operation)
            ]
            assert found[0].payload["plan_id"] == "recorded"
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "PENDING"
