"""The table of rights, written out once more by hand: whoever changes one of the two has to mean it."""

from datetime import UTC, datetime, timedelta

import pytest

from remit.authority.capability_token import Token
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.browser.capabilities import BROWSER_CAPABILITIES, SERVICE_CAPABILITIES
from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller, PersonCaller, agent_id
from remit.identity.models import ROLES
from remit.identity.person import Person
from remit.services.base.permissions import RULES, Right, has_right, require

NOW = datetime(2026, 1, 1, tzinfo=UTC)

# v viewer, a approver, o operator, A admin; then the capabilities that give it to agents, * for any token, - for none.
EXPECTED = {
    Right.SEE: ("v a o A", "-"),
    Right.SEE_OWN: ("v a o A", "*"),
    Right.PREVIEW: ("o A", "plan.propose"),
    Right.PROPOSE: ("o A", "plan.propose"),
    Right.COMPUTE: ("o A", "plan.execute_preview"),
    Right.DECIDE: ("a A", "-"),
    Right.APPLY: ("o A", "plan.apply"),
    Right.UNDO: ("o A", "plan.undo"),
    Right.LEASE: ("A", "-"),
    Right.RUN_TASK: ("o A", "task.run"),
    Right.BROWSE: ("", "*"),
    Right.LOOK: ("v a o A", "plan.propose plan.read"),
    Right.CANCEL: ("a o A", "plan.propose"),
    Right.ASK: ("o A", "goal.ask"),
    Right.CONFIRM: ("v a o A", "-"),
    Right.ISSUE_TOKEN: ("A", "-"),
    Right.REVOKE_TOKEN: ("A", "-"),
    Right.CHANGE_CATALOGUE: ("A", "-"),
    Right.INVITE: ("A", "-"),
}
LETTERS = {"v": "viewer", "a": "approver", "o": "operator", "A": "admin"}


def agent(*caps: str) -> AgentCaller:
    times = (NOW, NOW, NOW + timedelta(hours=1))
    token = Token("bot", "jti-1", frozenset(caps), TokenConstraints(), *times, "kid-1", "sha256:" + "0" * 64)
    return AgentCaller(token, "the secret text", lambda _connection, _now: None)


def test_every_right_is_had_by_exactly_those_who_should_have_it() -> None:
    assert set(EXPECTED) == set(Right) == set(RULES)
    for right, (letters, capability) in EXPECTED.items():
        roles = {LETTERS[letter] for letter in letters.split()}
        for role in ROLES:
            assert has_right(PersonCaller(Person("os:ana"), role), right) is (role in roles), (role, right)
        for held in (*BROWSER_CAPABILITIES, *SERVICE_CAPABILITIES, "call.crm.set"):
            assert has_right(agent(held), right) is (not {"*", held}.isdisjoint(capability.split())), (held, right)


@pytest.mark.req("VX-09")
def test_no_token_whatever_it_holds_lets_an_agent_decide() -> None:
    everything = agent(*BROWSER_CAPABILITIES, *SERVICE_CAPABILITIES, "call.decide", "call.approve")
    persons = {Right.SEE, Right.DECIDE, Right.CONFIRM, Right.LEASE, Right.ISSUE_TOKEN, Right.REVOKE_TOKEN}
    for right in persons | {Right.CHANGE_CATALOGUE, Right.INVITE}:
        with pytest.raises(RefusedError) as refused:
            require(everything, right)
        assert refused.value.reason is Reason.PERMISSION_DENIED
        assert "an agent cannot" in refused.value.what
        assert "only a person can" in refused.value.what


def test_a_refusal_says_who_could_and_never_the_token() -> None:
    with pytest.raises(RefusedError) as by_agent:
        require(agent("browser.navigate"), Right.APPLY)
    assert by_agent.value.reason is Reason.CAPABILITY_MISSING
    assert "remit token issue --sub bot --cap plan.apply" in by_agent.value.next_step
    with pytest.raises(RefusedError) as by_viewer:
        require(PersonCaller(Person("os:ana"), "viewer"), Right.DECIDE)
    assert by_viewer.value.reason is Reason.PERMISSION_DENIED
    assert "Allowed for: admin, approver." in by_viewer.value.next_step
    assert "the secret text" not in repr(agent("plan.apply"))


def test_no_two_names_of_agents_have_one_id_in_the_record() -> None:
    long, longer = "a" * 194, "a" * 200
    names = ["bot", long, longer, "a" * 195, f"sha256:{'0' * 64}", "sha256:", "agent:bot", "login:ann"]
    names += [agent_id(name).removeprefix("agent:") for name in names]  # who calls himself like another's id
    ids = {name: agent_id(name) for name in names}
    assert len(set(ids.values())) == len(ids)
    assert all(len(each) <= 200 and each.startswith("agent:") for each in ids.values())
    assert (ids["bot"], ids[long]) == ("agent:bot", f"agent:{long}")
